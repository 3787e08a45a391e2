"""Verbs that write: what cannot be written is refused before a model is loaded or anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.cli import main
from bathyscope.core.paths import require_writable
from bathyscope.errors import StoreError
from bathyscope.pages.files.export import save_figures, save_side_by_side
from bathyscope.pages.files.panel_files import save_panels

MODEL, TEXTS = "no/such-model", [[5, 9, 7, 30]]
FOLDERS: dict[str, Callable[[Path], Any]] = {
    "survey": lambda out: bathyscope.survey(MODEL, TEXTS, ["lens"], out),
    "prune": lambda out: bathyscope.prune(MODEL, TEXTS, TEXTS, drop=1, out=out),
    "evaluate": lambda out: bathyscope.evaluate(MODEL, ["arc_easy"], out=out),
    "repair": lambda out: bathyscope.repair(MODEL, "drop:1", TEXTS, test=TEXTS, how="heal", tokens=9, state=out),
    "export": lambda out: bathyscope.export(MODEL, "drop:1", out),
    "course": lambda out: bathyscope.course(["checkpoint-1"], TEXTS, out),
    "grid": lambda out: bathyscope.grid({"survey": {"model": [MODEL], "prompts": ["a.txt"]}}, out),
    "reproduce": lambda out: bathyscope.reproduce("hu2025-table1", [MODEL], out=out),
    "demo": lambda out: bathyscope.demo(out),
    "figures": lambda out: save_figures(synthetic_run(2, prompts=2), out),
    "panels": lambda out: save_panels(synthetic_run(2, prompts=2), out),
    "side by side": lambda out: save_side_by_side([synthetic_run(2, prompts=2)], out),
}
FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "fit_lens": ("x.safetensors", lambda out: bathyscope.fit_lens(MODEL, TEXTS, out=out)),
    "report": ("x.html", lambda out: bathyscope.report(synthetic_run(2, prompts=2), out)),
    "badge": ("x.svg", lambda out: bathyscope.badge(synthetic_run(2, prompts=2), out)),
    "card": ("x.md", lambda out: bathyscope.card(synthetic_run(2, prompts=2), out)),
}
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "fit-lens": ("x.safetensors", ["fit-lens", MODEL, "--prompts", "{text}"]),
    "diff": ("x.html", ["diff", MODEL, MODEL, "--prompts", "{text}"]),
    "maps": ("x.nc", ["diff", "maps", MODEL, MODEL, "--prompts", "{text}"]),
    "solved-by": ("x.jsonl", ["compare", "solved-by", MODEL, MODEL, "--prompts", "{text}"]),
    "exit-advice": ("x.png", ["prune", "exit-advice", MODEL, "--prompts", "{text}"]),
    "probe": ("x.png", ["probe", "subjoiner", MODEL, "--words", "{text}"]),
    "group": ("x.png", ["compare", "group", "no-run", "--by", "level"]),
    "compare": ("x.html", ["compare", "no-run", "another"]),
    "depth-performance": ("x.png", ["compare", "depth-performance", "none.csv", "--score", "y"]),
    "report": ("x.html", ["report", "no-run"]),
    "plot": ("x.pdf", ["report", "plot", "no-run", "lens.kl"]),
}


def places(tmp_path: Path, name: str = "x") -> list[Path]:
    """Below a file; below a link that leads nowhere; where the file system takes none."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    return [tmp_path / "file" / name, tmp_path / "link" / "deeper" / name, Path("/proc/none") / name]


@pytest.fixture(autouse=True)
def nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed or drawn before the place was looked at")

    for name in ("bathyscope.pages.page.drawings", "bathyscope.pages.files.badge.read_profile"):
        monkeypatch.setattr(name, never)
    for name in (
        "files.export.drawings",
        "files.panel_files.drawings",
        "files.export.side_by_side",
        "demonstration._load_bundled_model",
    ):
        monkeypatch.setattr(f"bathyscope.pages.{name}", never)


@pytest.mark.parametrize("verb", FOLDERS)
def test_a_folder_that_cannot_be_written_is_refused_first(verb: str, tmp_path: Path) -> None:
    for place in places(tmp_path):
        with pytest.raises(StoreError, match=r"cannot hold .*Nothing was computed\."):
            FOLDERS[verb](place)
        assert not place.exists()


@pytest.mark.parametrize("verb", FILES)
def test_a_file_that_cannot_be_written_is_refused_first(verb: str, tmp_path: Path) -> None:
    name, call = FILES[verb]
    (tmp_path / name).mkdir()
    for place in [*places(tmp_path, name), tmp_path / name]:
        with pytest.raises(StoreError, match=r"Cannot write .*Nothing was computed\."):
            call(place)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_looks_at_its_file_first(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, words = COMMANDS[command]
    text = tmp_path / "text.txt"
    text.write_text("some words\n")
    (tmp_path / name).mkdir()
    for place in [places(tmp_path, name)[0], tmp_path / name]:
        (tmp_path / "link").unlink(missing_ok=True)
        line = [word.format(text=text) for word in words]
        assert main([*line, "--out", str(place)]) == StoreError.exit_code
        assert "Nothing was computed" in " ".join(capsys.readouterr().err.split())


def test_what_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    for place in (tmp_path / "a" / "b" / "new.txt", tmp_path / "old.txt", Path("new.txt")):
        require_writable(place)
    for place in (tmp_path, tmp_path / "a" / "b"):
        require_writable(place, holds="a run")
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"
    with pytest.raises(StoreError, match=r"it is a folder, and a file is wanted"):
        require_writable(tmp_path)
    with pytest.raises(StoreError, match=r"cannot hold a run: it is no folder"):
        require_writable(tmp_path / "old.txt", holds="a run")

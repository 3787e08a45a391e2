"""``bathyscope report plot``: a panel as a file, by its ending."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.synthetic import synthetic_run

from bathyscope.cli import main
from bathyscope.cli.commands import plot as command

RUN = synthetic_run(6, 4)
TWIN = synthetic_run(6, 4, seed=5, model="example/twin-6")


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"one": RUN, "two": TWIN}
    monkeypatch.setattr(command, "open_run", lambda folder, partial: runs[folder])


def test_a_panel_is_written_in_the_format_of_its_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begins = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for format_, begin in begins.items():
        out = tmp_path / "new" / f"kl.{format_}"
        assert main(["report", "plot", "one", "lens.kl", "--out", str(out), "--width", "3.3", "--blocks", "1-4"]) == 0
        assert out.read_bytes().startswith(begin)
        assert capsys.readouterr().out.strip() == str(out)
    root = ElementTree.parse(tmp_path / "new" / "kl.svg").getroot()
    assert root.get("width") == "237.6pt"


def test_several_runs_and_other_words(tmp_path: Path) -> None:
    first, again = tmp_path / "a.svg", tmp_path / "b.svg"
    assert main(["report", "plot", "one", "two", "lens.entropy", "--out", str(first), "--labels", "ours,theirs"]) == 0
    assert (
        main(["report", "plot", "one", "lens.kl", "--out", str(again), "--labels", "x=layer", "--title", "Mine"]) == 0
    )
    assert first.read_bytes() != again.read_bytes()
    # Letters are outlines, each text with a comment that says it.
    assert "<!-- ours -->" in first.read_text()
    assert all(f"<!-- {text} -->" in again.read_text() for text in ("layer", "Mine"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["one"], "runs/qwen lens.kl --out kl.pdf. bathyscope show names panels lists all."),
        (["one", "lens.kl"], "Nothing to write: give --out FILE, which ends in .png, .svg, .pdf, .pgf."),
        (["one", "lens.kl", "--out", "a.gif"], "--out 'a.gif' has no ending that says a format. Allowed: .png"),
        (["one", "lens.kl", "--out", "a.pdf", "--blocks", "4-20"], "blocks='4-20' is no stretch of the 6 blocks"),
        (["one", "lens.kl", "--out", "a.pdf", "--reduction", "median"], "reduction"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "plot", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_a_panel_in_front_of_its_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    assert main(["report", "plot", "lens.kl", "run", "--out", "a.pdf"]) == 2
    assert "The panel stands behind the runs: bathyscope report plot run lens.kl --out FILE." in " ".join(
        capsys.readouterr().err.split()
    )

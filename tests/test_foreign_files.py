"""Files of the user's own: no command replaces one, and each replaces what it wrote itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.synthetic import synthetic_run

import bathyscope
from bathyscope import OptionError, StoreError
from bathyscope.cli import main
from bathyscope.cli.commands.solved_by import _is_labelled
from bathyscope.core.own_files import require_own, require_own_page, require_own_picture
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin
from bathyscope.pages.files.export import save_figures
from bathyscope.pages.papers.json_record import check_record
from bathyscope.prompts.prompt_rows import prompt_lines

FOREIGN: dict[str, bytes] = {
    ".md": b"# Read me\n\nWords of my own.\n",
    ".svg": b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0v9"/></svg>',
    ".html": b"<!DOCTYPE html><html><head><title>Mine</title></head></html>",
    ".jsonl": b'{"text": "one", "answer": "two"}\n',
    ".nc": b"CDF\x01 and more",
    ".json": b'{"name": "mine"}',
    ".png": b"\x89PNG",
}
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "solved-by": (".jsonl", ["compare", "solved-by", "no/model", "no/model", "--prompts", "{text}", "--out"]),
    "maps": (".nc", ["diff", "maps", "no/model", "no/model", "--prompts", "{text}", "--out"]),
    "maps, drawn": (".svg", ["diff", "maps", "no/model", "no/model", "--prompts", "{text}", "--out"]),
    "exit-advice": (".svg", ["prune", "exit-advice", "no/model", "--prompts", "{text}", "--out"]),
    "diff": (".html", ["diff", "no/model", "no/model", "--prompts", "{text}", "--out"]),
    "compare": (".html", ["compare", "no-run", "another", "--out"]),
    "compare, drawn": (".svg", ["compare", "no-run", "another", "--out"]),
    "report": (".html", ["report", "no-run", "--out"]),
    "plot": (".svg", ["report", "plot", "no-run", "lens.kl", "--out"]),
    "reproduce": (".json", ["reproduce", "hu2025-table1", "--models", "./none", "--record"]),
}
RUN = partial(synthetic_run, 3, prompts=2)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_file_of_the_user_first(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ending, words = COMMANDS[command]
    (tmp_path / "text.txt").write_text("some words\n")
    file = tmp_path / f"own{ending}"
    file.write_bytes(FOREIGN[ending])
    line = [word.format(text=tmp_path / "text.txt") for word in words]
    assert main([*line, str(file)]) == StoreError.exit_code
    assert "so it is not replaced" in " ".join(capsys.readouterr().err.split())
    assert file.read_bytes() == FOREIGN[ending]


def write_card(path: Path) -> object:
    return bathyscope.card(RUN(), path)


def write_badge(path: Path) -> object:
    return bathyscope.badge(RUN(), path)


def write_page(path: Path) -> object:
    return bathyscope.report(RUN(), path)


def write_lens(path: Path) -> object:
    matrices_HBDD = torch.eye(4).expand(2, 3, 4, 4)
    return FittedLens(LensOrigin("m"), [0, 1, 2], matrices_HBDD, [1, 1], torch.ones(3, dtype=torch.float64)).save(path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "x.md": write_card,
    "x.svg": write_badge,
    "x.html": write_page,
    "x.safetensors": write_lens,
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_a_call_wrote_itself_is_replaced_and_nothing_else(name: str, tmp_path: Path) -> None:
    file, write = tmp_path / name, WRITERS[name]
    write(file)
    written = file.read_bytes()
    write(file)
    assert file.read_bytes() == written
    file.write_bytes(b"")  # as a program leaves it that reserves a name
    write(file)
    assert file.read_bytes() == written
    if file.suffix == ".safetensors":
        save_file({"weight": torch.ones(2)}, file)
    else:
        file.write_bytes(FOREIGN[file.suffix])
    foreign = file.read_bytes()
    with pytest.raises(StoreError, match=r"x\.\w+' exists and is not .*Give another name, or remove that file first\."):
        write(file)
    assert file.read_bytes() == foreign


def test_the_picture_next_to_a_card_is_refused_by_its_name(tmp_path: Path) -> None:
    picture = tmp_path / "depth.svg"
    picture.write_bytes(FOREIGN[".svg"])
    with pytest.raises(StoreError, match=r"depth\.svg' exists and is not a picture that bathyscope wrote"):
        write_card(tmp_path / "depth.md")
    assert [path.name for path in tmp_path.iterdir()] == ["depth.svg"]
    assert picture.read_bytes() == FOREIGN[".svg"]


def test_a_readme_with_a_card_in_it_is_the_users_own(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# My model\n\n{bathyscope.card(RUN())}")
    content = readme.read_text()
    with pytest.raises(StoreError, match="not a card"):
        write_card(readme)
    assert readme.read_text() == content


def test_pictures_of_every_kind_are_recognised(tmp_path: Path) -> None:
    for name, write in (("card.md", write_card), ("badge.svg", write_badge)):
        write(tmp_path / name)
    pictures = [tmp_path / "card.svg", tmp_path / "badge.svg", *save_figures(RUN(), tmp_path / "figures", ["svg"])]
    assert len(pictures) > 3
    for picture in pictures:
        require_own_picture(picture)
        with pytest.raises(StoreError, match="not a page"):
            require_own_page(picture)


def test_prompts_that_solved_by_labelled_are_recognised_under_any_label(tmp_path: Path) -> None:
    file = tmp_path / "labelled.jsonl"
    for label in ("solved_by", "who"):
        prompts = [
            bathyscope.Prompt(text=text, labels={label: value}) for text, value in (("a", "both"), ("b", "neither"))
        ]
        file.write_text(prompt_lines(prompts))
        assert _is_labelled(file)
    for text in (prompt_lines([*prompts, bathyscope.Prompt(text="c")]), '{"text": "a", "level": 3}\n'):
        file.write_text(text)
        assert not _is_labelled(file)


@pytest.mark.parametrize("version", [0, 1, 99])
def test_records_of_other_versions_are_records(version: int, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps({"record": version, "target": "hu2025", "numbers": []}))
    check_record(file)
    for content in ({"record": 1}, {"target": "hu2025"}, {"record": 1, "target": []}, [1]):
        file.write_text(json.dumps(content))
        with pytest.raises(StoreError, match="not a record"):
            check_record(file)


@pytest.mark.parametrize("name", ["lens.txt", "lens.pt", "lens"])
def test_a_lens_is_saved_under_the_ending_that_it_is_opened_by(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"path='.*{name}' must end in \.safetensors"):
        write_lens(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_link_under_the_name_is_replaced_and_not_looked_through(tmp_path: Path) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("my own page", encoding="utf-8")
    (tmp_path / "page.html").symlink_to(mine)
    asked_of: list[Path] = []
    require_own(tmp_path / "page.html", "a page", asked_of.append)
    assert asked_of == []
    bathyscope.report([RUN()], tmp_path / "page.html")
    assert mine.read_text(encoding="utf-8") == "my own page"
    assert not (tmp_path / "page.html").is_symlink()


def test_a_reader_that_fails_recognises_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")

    def fail(_: Path) -> Any:
        raise ValueError("damaged")

    with pytest.raises(StoreError, match="not a thing"):
        require_own(file, "a thing", fail)
    require_own(tmp_path / "new", "a thing", fail)

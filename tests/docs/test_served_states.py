"""The guide to states of a served model: its programs and commands run as printed, on a stand-in."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import bathyscope
from bathyscope.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "served_states.md"
STAND_IN = ROOT / "checkpoints" / "depth_12"
TENSORS = ("model.norm.weight", "model.embed_tokens.weight")
"""Of the stand-in, whose head is tied."""


def blocks(kind: str) -> list[str]:
    """What stands in the page's blocks of code of a language."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def words(text: str) -> str:
    return " ".join(text.replace("\n> ", " ").split())


def run_program(code: str, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
    exec(code, {})


def paragraphs() -> list[str]:
    """The beginnings of six long paragraphs of the glossary."""
    texts = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("\n\n")
    return [text.replace("\n", " ")[:600] for text in texts if len(text) > 250 and "|" not in text]


def test_the_guide_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n\n".join(paragraphs()))
    for name in ("hidden_states", "head"):
        (tmp_path / name).mkdir()
    write, _, cut, survey = blocks("python")
    run_program(write, (STAND_IN, "texts.txt", "hidden_states"), monkeypatch)
    run_program(cut, (STAND_IN, "head", *TENSORS), monkeypatch)
    assert sorted(path.name for path in (tmp_path / "head").iterdir()) == [
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    ]
    commands = list(dict.fromkeys(line for block in blocks("bash") for line in block.splitlines()))
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0, line
    run = bathyscope.open("runs/served")
    checks = run.manifest["record"]["notes"]["states"]["checks"]
    assert checks[1].startswith("embedding of the head: that of boundary 0, at ")
    assert checks[2].startswith("predictions of the served model: those of the readout")
    # numbers differ by rounding from machine to machine; what is said of them does not
    number = re.compile(r"\d+(?:\.\d+)?")
    assert number.sub("#", run.headline()) in number.sub("#", words(PAGE.read_text(encoding="utf-8")))
    capsys.readouterr()
    exec(survey, {})
    (printed,) = blocks("text")
    assert capsys.readouterr().out.splitlines()[1] == printed.splitlines()[1]

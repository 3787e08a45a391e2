"""The page that decides which blocks can go: its commands run as printed, and say what is printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from transformers import AutoConfig

from bathyscope.cli import main
from bathyscope.surgery.benchmarks import open_evaluation
from bathyscope.surgery.plan.opening import open_plan

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\d+(?:\.\d+)?")
PAGE = ROOT / "docs" / "guides" / "which_blocks.md"


def blocks(kind: str) -> list[str]:
    """What stands in the page's blocks of code of a language."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def commands() -> list[list[str]]:
    """The commands, without their first word."""
    return [shlex.split(line)[1:] for block in blocks("bash") for line in block.splitlines()]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the repository's checkpoints and documents."""
    for name in ("checkpoints", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python(capsys: pytest.CaptureFixture[str]) -> str:
    """What the page's Python prints."""
    capsys.readouterr()
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)
    return capsys.readouterr().out


def test_the_export_and_the_python_of_the_page(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (export,) = [words for words in commands() if words[0] == "export"]
    assert main(export) == 0
    assert AutoConfig.from_pretrained(checkout / "runs" / "smaller").num_hidden_layers == 10
    assert run_python(capsys).startswith("10 ")


def test_the_files_of_the_page_are_apart() -> None:
    folder = ROOT / "docs" / "examples" / "problems"
    rows = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("calibration", "test", "asked")
    }
    texts = {name: {row["text"] for row in rows[name]} for name in ("calibration", "test")}
    texts["asked"] = {f"{row['worked']} {row['answer']}" for row in rows["asked"]}
    assert [len(own) for own in texts.values()] == [60, 60, 60]
    assert len(set().union(*texts.values())) == 180
    assert yaml.safe_load((folder / "problems.yaml").read_text(encoding="utf-8"))["task"] == "problems"


@pytest.mark.thorough
def test_all_commands_run_as_printed_and_say_what_is_printed(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("lm_eval", reason="the extra is not installed: pip install 'bathyscope[eval]'")
    for words in commands():
        assert main(words) == 0, words
    plan = open_plan(checkout / "runs" / "choice")
    quoted = " ".join(line[2:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("> "))
    # words to the letter; the checkpoint computes in bfloat16, which other processors round otherwise
    assert NUMBER.sub("#", plan.text) == NUMBER.sub("#", quoted)
    printed, said = ([float(one) for one in NUMBER.findall(text)] for text in (plan.text, quoted))
    np.testing.assert_allclose(printed, said, rtol=0.02)
    asked = open_evaluation(checkout / "runs" / "smaller-asked").data["value"]
    assert float(asked.sel(schedule="standard", metric="exact_match").item()) == float(plan.tasks["pruned"][0])
    assert (checkout / "runs" / "choice.html").stat().st_size > 0
    assert run_python(capsys).startswith("10 ")

"""The page that asks whether a new block is used: its commands and its Python run as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bathyscope
from bathyscope.cli import main
from bathyscope.surveying.training.steps import open_course

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "new_block.md"


def blocks(kind: str) -> list[str]:
    """What stands in the page's blocks of code of a language."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.filterwarnings("ignore")
def test_the_page_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("checkpoints", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    grow, look = ([shlex.split(line)[1:] for line in block.splitlines()] for block in blocks("bash"))
    for words in grow:
        assert main(words) == 0, words
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)
    course = open_course("runs/course")
    assert course.step.values.tolist() == [0, 6, 12]
    assert course.sizes["block"] == 8
    # It was trained: the model that the course ends with is the one that was saved.
    ids = [list(prompt.ids) for prompt in bathyscope.open("runs/course/step-00000012").prompts]
    assert len(ids) == 4
    again = bathyscope.survey("runs/trained/checkpoint-12", ids, ["drop"], progress=False)
    assert float(again["drop"].baseline_loss.mean()) == pytest.approx(float(course["loss"][-1]), rel=1e-4)
    assert np.abs(course["added_loss"].values[-1] - course["added_loss"].values[0]).max() > 1e-3
    capsys.readouterr()
    for words in look:
        assert main(words) == 0, words
    # in bfloat16 what training did to single embeddings is within their rounding, and their weights differ all the same
    assert "The streams part at block 0; the weights of the embedding" in " ".join(capsys.readouterr().out.split())
    for page in ("course", "diff"):
        assert "<svg" in (tmp_path / "runs" / f"{page}.html").read_text(encoding="utf-8")

"""The README and the first page of the site: what they say that the demo prints is what it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bathyscope.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LANDING = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def answer(page: str) -> str:
    """The sentences that a page says the demo begins with."""
    (block,) = re.findall(r"^(Half of the tokens keep .*?)\n(?:\[|```)", page, re.MULTILINE | re.DOTALL)
    return " ".join(block.split())


def test_both_pages_give_one_answer() -> None:
    assert answer(README) == answer(LANDING)


@pytest.mark.thorough
def test_the_demo_and_the_five_lines_print_what_the_pages_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--quiet"]) == 0
    assert (tmp_path / "runs" / "demo" / "report.html").exists()
    assert capsys.readouterr().out.splitlines()[0] == answer(README)
    (code,) = re.findall(r"^```python\n(.*?)^```", LANDING, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    verdict, *costs = capsys.readouterr().out.splitlines()
    assert verdict == answer(LANDING)
    printed = re.findall(r"-?\d+\.\d+", "".join(costs))
    (listed,) = re.findall(r"^\[(.*)\]$", LANDING, re.MULTILINE)
    # what another processor rounds otherwise may differ by one in the last digit
    np.testing.assert_allclose([float(one) for one in printed], [float(one) for one in listed.split()], atol=0.0101)

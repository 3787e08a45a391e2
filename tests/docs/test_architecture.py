"""The walks of the page on the architecture are those that a program takes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import FrameType

from support import waves, zoo

import bathyscope
from bathyscope.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = f"{ROOT / 'src' / 'bathyscope'}/"


def walks() -> dict[str, list[str]]:
    """What each walk begins with in words, and its calls as file:function."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Three walks")[2].partition("## Rings")[0]
    found = re.findall(r"^\*(.+?)\*(.+?)(?=^\*|\Z)", section, re.MULTILINE | re.DOTALL)
    return {title: re.findall(r"`([\w/]+\.py:[\w.]+)`", text) for title, text in found}


def test_a_survey_and_its_page_take_the_walks(tmp_path: Path) -> None:
    waves.loaded("llama").hf.save_pretrained(tmp_path / "model")
    rows = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (14,))]
    (tmp_path / "prompts.jsonl").write_text("\n".join(rows), encoding="utf-8")
    asked = ["survey", str(tmp_path / "model"), "--prompts", str(tmp_path / "prompts.jsonl"), "--measures", "skip"]
    asked += ["--skip.protect_first", "0", "--out", str(tmp_path / "run"), "--quiet"]
    left = walks()
    assert list(map(len, left.values())) == [13, 13, 17]

    def step(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            here = f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"
            for walk in left.values():
                if walk[:1] == [here]:
                    del walk[0]

    sys.setprofile(step)
    try:
        assert main(asked) == 0
        bathyscope.report([bathyscope.open(tmp_path / "run")], tmp_path / "page.html")
    finally:
        sys.setprofile(None)
    assert [walk for walk in left.values() if walk] == []

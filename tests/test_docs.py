"""What the documents say is there: every variable of every measure, every linked file, every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import zoo

import bathyscope
from bathyscope.measures.registry import MEASURES
from bathyscope.papers.presets import PRESETS

ROOT = Path(__file__).resolve().parents[1]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "checkpoints/README.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    model = zoo.build("llama")
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(model, (14, 9, 17, 12))]
    return bathyscope.survey(model, prompts, "all", repeat={"length": 2}, erasure={"future": True}, progress=False)


@pytest.mark.parametrize("measure", [*MEASURES, "noise"])
def test_every_variable_is_in_the_table_of_its_measure(measure: str, run: bathyscope.Run) -> None:
    page = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {measure}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    listed = {
        match[1]: (match[2], match[3])
        for match in re.finditer(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", section[1], re.M)
    }
    found = {
        str(name): (", ".join(map(str, variable.dims)), variable.attrs["units"])
        for name, variable in run[measure].data_vars.items()
    }
    assert listed == found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert missing == []


def test_presets_name_known_measures() -> None:
    assert {m for preset in PRESETS.values() for m in preset.measures} <= set(MEASURES)
    assert {m for preset in PRESETS.values() for m in preset.options} <= set(MEASURES)

"""The table as the documents show it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import bathyscope
from bathyscope.errors import OptionError
from studies.planted import CONSTRUCTIONS, Cell
from studies.planted.page import BEGIN, END, shown, with_table, write_table
from studies.planted.surveyed import MEASURES as SURVEYED
from studies.planted.surveyed import WITH_MORE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "design" / "planted_depth.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
NAME = re.compile(r"`(\w+)`")


@pytest.mark.thorough
def test_the_document_holds_the_table_as_it_is(cells_of: Callable[[str], dict[str, Cell]]) -> None:
    written = PAGE.read_text(encoding="utf-8")
    anew = with_table(written, {name: cells_of(name) for name in CONSTRUCTIONS})
    assert NUMBER.sub("#", written) == NUMBER.sub("#", anew)
    # a last digit may fall otherwise on another processor
    pairs = zip(NUMBER.findall(written), NUMBER.findall(anew), strict=True)
    assert all(abs(float(a) - float(b)) < 0.15 for a, b in pairs)


def test_measures_that_are_not_judged_are_named_with_the_reason() -> None:
    written = PAGE.read_text(encoding="utf-8")
    begin, end = "measures are taken of them:", "Why the others are left out"
    judged = NAME.findall(written.partition(begin)[2].partition(end)[0])
    assert sorted(judged) == sorted([*SURVEYED, *WITH_MORE])
    listed = written.partition("## Not judged")[2].partition("\n## ")[0].partition(BEGIN)[0]
    reasons = [line.partition(":") for line in listed.splitlines() if line.startswith("- ")]
    unjudged = [name for names, _, _ in reasons for name in NAME.findall(names)]
    assert len({*judged, *unjudged}) == len([*judged, *unjudged])
    measures = [row["name"] for row in bathyscope.names("measures")]
    assert {*judged, *unjudged} <= set(measures)
    assert all(reason.strip() for _, _, reason in reasons)
    # a measure that is added has not been tried, which the page says of those that it does not name
    untried = [name for name in measures if name not in {*judged, *unjudged}]
    assert not untried or "has not been tried on built models" in listed


def test_the_table_replaces_what_stands_between_the_marks(
    tmp_path: Path, cells_of: Callable[[str], dict[str, Cell]]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_table(page, {"relay": cells_of("relay")})
    written = page.read_text(encoding="utf-8")
    assert written.startswith(f"before\n{BEGIN}\n")
    assert written.endswith(f"{END}\nafter\n")
    assert "old" not in written
    assert "| `kl` | ✓ |" in written
    assert "### relay" in written


@pytest.mark.parametrize("text", ["no marks", f"{BEGIN}", f"{END}\n{BEGIN}", f"{BEGIN}\n{BEGIN}\n{END}"])
def test_a_page_without_its_marks_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="no place for the table; give it the lines"):
        with_table(text, {})


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (5.0, "5"),
        (4.46, "4.5"),
        (math.nan, "none"),
        (frozenset(), "none"),
        (frozenset({0, 1, 2, 4, 7, 8}), "0–2, 4, 7–8"),
        (frozenset({(2, 6)}), "2→6"),
        (frozenset({(0, 1), (0, 2), (1, 2), (1, 3)}), "4 pairs"),
    ],
)
def test_readings_in_a_few_characters(value: float | frozenset[int], wanted: str) -> None:
    assert shown(value) == wanted

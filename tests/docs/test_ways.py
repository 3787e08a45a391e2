"""The stored table of what the ways of running cost: it has every way, and says what the page says of it."""

from __future__ import annotations

from pathlib import Path

import docs.ways as table

PAGE = Path(table.__file__).with_name("ways_of_running.md")


def test_every_way_is_in_the_table_and_all_but_ranks_give_the_same_bits() -> None:
    costs = {cost["way"]: cost for cost in table.read_table()}
    assert list(costs) == list(table.NAMES)
    assert {way for way, cost in costs.items() if float(cost["gap"]) > 0} == {"tensor parallel"}
    assert float(costs["tensor parallel"]["gap"]) < 1e-4
    one = costs["one process"]
    assert (float(one["cpu"]), float(one["start"])) == (1, 1)


def test_memory_is_what_the_ways_are_chosen_for() -> None:
    """Split and streamed models take less of a process than the whole; every worker takes the whole."""
    largest = {cost["way"]: float(cost["largest"]) for cost in table.read_table()}
    assert largest["streaming"] < largest["tensor parallel"] < largest["one process"]
    assert all(abs(largest[way] / largest["one process"] - 1) < 0.05 for way in ("parts", "Ray"))


def test_the_page_shows_a_row_for_each_way() -> None:
    page = table.page(table.read_table())
    assert all(f"| {name} |" in page for name in table.NAMES.values())
    assert "generated/ways.md" in PAGE.read_text(encoding="utf-8")

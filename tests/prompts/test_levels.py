from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.prompts.levels import as_range, in_turn, shares


@pytest.mark.parametrize(
    ("count", "levels", "expected"), [(60, 3, [20, 20, 20]), (20, 3, [7, 7, 6]), (2, 3, [1, 1, 0])]
)
def test_shares(count: int, levels: int, expected: list[int]) -> None:
    assert shares(count, levels) == expected


@given(count=st.integers(0, 200), levels=st.integers(1, 12))
def test_shares_add_up_and_differ_by_one_at_most(count: int, levels: int) -> None:
    found = shares(count, levels)
    assert (len(found), sum(found)) == (levels, count)
    assert max(found) - min(found) <= 1
    assert found == sorted(found, reverse=True)


def test_groups_take_turns() -> None:
    assert in_turn([[1, 2, 3], [10], [100, 200]]) == [1, 10, 100, 2, 200, 3]
    assert in_turn([[None, 1], [2]]) == [None, 2, 1]
    assert in_turn([]) == []


def test_levels_as_they_are_written() -> None:
    assert (as_range("2-4"), as_range(3), as_range("5")) == (range(2, 5), range(3, 4), range(5, 6))

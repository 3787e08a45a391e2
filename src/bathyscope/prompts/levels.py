"""Prompts of several levels of difficulty, taken in turn, so that every level has as many as the others."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

T = TypeVar("T")


def as_range(levels: int | str) -> range:
    """The levels that an option chooses: ``2``, or ``"1-6"``."""
    lowest, _, highest = str(levels).partition("-")
    return range(int(lowest), int(highest or lowest) + 1)


def shares(count: int, levels: int) -> list[int]:
    """How many of ``count`` prompts each level gives: as equal as can be, the first levels one more."""
    return [count // levels + (level < count % levels) for level in range(levels)]


def in_turn(groups: Sequence[Sequence[T]]) -> list[T]:
    """The first of every group, then the second of every group …; a group that has run out is passed over."""
    absent = object()
    turns = zip_longest(*groups, fillvalue=absent)
    return [item for turn in turns for item in turn if item is not absent]  # type: ignore[misc]

"""Levels of difficulty: the labels that tell them, and prompts of several levels taken in turn, as many of each."""

from collections.abc import Container, Sequence
from itertools import zip_longest
from typing import Final, TypeVar

T = TypeVar("T")

DIFFICULTY_LABELS: Final = ("level", "hops", "steps", "digits")
"""Labels that say how hard a prompt is, in the order in which they are looked for."""


def difficulty_label(labels: Container[str]) -> str | None:
    """Return the label that says how hard prompts with these labels are; None where no label does."""
    return next((name for name in DIFFICULTY_LABELS if name in labels), None)


def as_range(levels: int | str) -> range:
    """The levels that an option chooses: ``2``, or ``"1-6"``."""
    lowest, _, highest = str(levels).partition("-")
    return range(int(lowest), int(highest or lowest) + 1)


def shares(count: int, levels: int) -> list[int]:
    """How many of ``count`` prompts each level gives: as equal as can be, the first levels one more."""
    return [count // levels + (level < count % levels) for level in range(levels)]


def in_turn(groups: Sequence[Sequence[T]]) -> list[T]:
    """The first of every group, then the second of every group …; a group that has run out is passed over."""
    # Levels in turn: the first prompts of a set, which a smaller survey takes, have all of them.
    absent = object()
    turns = zip_longest(*groups, fillvalue=absent)
    return [item for turn in turns for item in turn if item is not absent]  # type: ignore[misc]

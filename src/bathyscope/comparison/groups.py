"""The prompts of a run in groups, by one of their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bathyscope.errors import OptionError, warn
from bathyscope.prompts.parts import CLASSES, DATASET, label_values, parts
from bathyscope.store.run import Run

MOST: Final = 12
"""Groups that are compared pair by pair; a label with more values than that names prompts rather than groups."""
FEW: Final = 5
"""Prompts of a group below which its intervals are rough."""


@dataclass(frozen=True)
class Groups:
    """Groups in order, and the number of each prompt's group (−1 = it has no label)."""

    by: str
    names: list[str]
    of_prompt: NDArray[np.intp]

    @classmethod
    def of(cls, run: Run, by: str) -> Groups:
        """The groups of a run's prompts by one of their labels, or by ``dataset``.

        Warns of prompts without the label, and of groups that are too small for intervals.
        """
        appearing, member = parts(label_values(run.prompts, by))
        # data sets keep the order in which they were given
        levels = appearing if by == DATASET else sorted(appearing, key=rank)
        if len(levels) < 2:
            raise OptionError(f"All labelled prompts have the same {by} ({_listed(levels)}); a comparison needs two.")
        if len(levels) > MOST:
            raise OptionError(
                f"The label {by!r} has {len(levels)} values ({_listed(levels[:4])} …), and groups are compared pair by "
                f"pair; at most {MOST} are allowed. Give a label with fewer values."
            )
        of_prompt = np.array([*map(levels.index, appearing), -1], dtype=np.intp)[member]
        found = cls(by, [level_name(level) for level in levels], of_prompt)
        found._warn_of_what_is_missing(int((member < 0).sum()))
        return found

    @property
    def sizes(self) -> list[int]:
        """Prompts of each group."""
        return [int(member.sum()) for member in self.members()]

    def members(self) -> Iterator[NDArray[np.bool_]]:
        """For each group which prompts belong to it."""
        return (self.of_prompt == place for place in range(len(self.names)))

    def _warn_of_what_is_missing(self, unlabelled: int) -> None:
        if unlabelled:
            warn(f"{unlabelled} of {len(self.of_prompt)} prompts have no label {self.by!r} and belong to no group.")
        small = [f"{name} ({size})" for name, size in zip(self.names, self.sizes) if size < FEW]
        if small:
            warn(
                f"Groups of fewer than {FEW} prompts: {', '.join(small)}. Their intervals are rough, and a group of "
                "one prompt has none."
            )


def rank(level: Any) -> tuple[int, float, str]:
    """Order of groups: numbers, then classes of solved_by, then texts by the number in them, then others."""
    if not isinstance(level, str):
        return 0, float(level), ""
    if level in CLASSES:
        return 1, float(CLASSES.index(level)), ""
    number = re.search(r"\d+(\.\d+)?", level)
    return 2, float(number[0]) if number else np.inf, level


def level_name(level: Any) -> str:
    """A label's value as it is called: 3.0, which stands for 3 where another prompt has no label, is 3."""
    if isinstance(level, str):
        return level
    short = f"{level:g}"
    return short if float(short) == level else str(level)  # 1234567 is not 1.23457e+06


def _listed(levels: list[Any]) -> str:
    return ", ".join(map(level_name, levels)) or "none"

"""The prompts of a run in groups, by one of their labels."""

import re
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


def groups_of(run: Run, by: str) -> dict[str, NDArray[np.bool_]]:
    """Which prompts of a run belong to each group, by its name and in order: by one of their labels, or ``dataset``.

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
    if unlabelled := int((member < 0).sum()):
        warn(f"{unlabelled} of {len(member)} prompts have no label {by!r} and belong to no group.")
    groups = {level_name(level): member == appearing.index(level) for level in levels}
    small = [f"{name} ({own.sum()})" for name, own in groups.items() if own.sum() < FEW]
    if small:
        warn(
            f"Groups of fewer than {FEW} prompts: {', '.join(small)}. Their intervals are rough, and a group of "
            "one prompt has none."
        )
    return groups


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

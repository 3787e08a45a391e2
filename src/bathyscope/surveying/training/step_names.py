"""The step that the name of a checkpoint tells: ``checkpoint-500``, ``step10k``, ``stage1-step1000-tokens5B``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from bathyscope.errors import OptionError

_UNITS: Final = {"": 1, "k": 10**3, "K": 10**3, "m": 10**6, "M": 10**6, "B": 10**9}
"""What is behind a number; a small ``b`` is as often a second version of a step."""
_WORD: Final = r"(?<![a-z])(?:checkpoint|step)[-_= ]?"
_NUMBERED: Final = re.compile(rf"{_WORD}(?=\.?\d)", re.IGNORECASE)
_STEP: Final = re.compile(
    # groups of three digits, 1_000, are read as neither 1 nor 1000; 1.5.2 and 1.5e3 are no numbers of steps
    rf"{_WORD}(\d+(?:\.\d+)?)((?-i:[{''.join(_UNITS)}])?)(?![a-z0-9]|\.\d|[,_]\d{{3}}(?!\d))",
    re.IGNORECASE,
)
_ONLY_A_STEP: Final = re.compile(rf"{_STEP.pattern}(?:-tokens[\d.]+[a-z]?)?|steps|checkpoints", re.IGNORECASE)


def has_step(name: str) -> bool:
    """Return whether a name is meant to tell a step: *checkpoint* or *step* with a number behind it."""
    return _NUMBERED.search(name) is not None


def is_only_a_step(name: str) -> bool:
    """Return whether a folder's name tells nothing of a training but a step, or that steps are in it."""
    return _ONLY_A_STEP.fullmatch(name) is not None


def step_of(name: str, kind: str = "checkpoint") -> int:
    """Return the step in the name of a checkpoint's folder or revision.

    Args:
        name: *checkpoint* or *step* with a number behind it; k, M and B stand for thousands, millions and billions.
        kind: what has the name, for the message.

    Raises:
        OptionError: no step, two that differ, or a number that is not surely a whole one.

    Example:
        >>> step_of("checkpoint-500"), step_of("step1.5k"), step_of("stage1-step1000-tokens5B")
        (500, 1500, 1000)
    """
    advice = "Name it such as checkpoint-500 or step10k."
    if not has_step(name):
        raise OptionError(f"The {kind} {name!r} does not tell its step; name it such as checkpoint-500.")
    matches = list(_STEP.finditer(name))
    if len(matches) < len(_NUMBERED.findall(name)):
        raise OptionError(f"The step in the name of the {kind} {name!r} is no number that can be read. {advice}")
    steps = {Decimal(match[1]) * _UNITS[match[2]] for match in matches}
    if len(steps) > 1:
        listed = " and ".join(f"{step.normalize():f}" for step in sorted(steps))
        raise OptionError(f"The name of the {kind} {name!r} tells two steps, {listed}. {advice}")
    (step,) = steps
    if step != int(step):
        raise OptionError(f"The {kind} {name!r} would be of step {step.normalize():f}, which is no whole one. {advice}")
    return int(step)

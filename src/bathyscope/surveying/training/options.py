"""Numbers of steps, and the options that tell a training from others of the same model, as a course stores them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Final

from bathyscope.errors import OptionError

STEPS: Final = "steps"
"""Option of a training: how many steps it takes in all."""


def whole(name: str, value: Any, low: int = 0) -> int:
    """Return a whole number of Python, NumPy or torch, or a float without a fraction, as Python's.

    Args:
        name: of the option, for the message.
        low: the lowest that is allowed.

    Raises:
        OptionError: anything else, or less than ``low``.
    """
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
    if not is_number or plain != plain or math.isinf(plain) or plain != int(plain):
        raise OptionError(f"{name}={value!r:.60} is no step of a training; give a whole number, {low} or more.")
    if plain < low:
        raise OptionError(f"{name}={int(plain)} is out of range; allowed: {low} or more.")
    return int(plain)


def require_share(max_share: float | None) -> None:
    """Refuse what is no share, such as a number of per cent."""
    is_number = isinstance(max_share, Real) and not isinstance(max_share, bool)
    if max_share is not None and not (is_number and 0 < max_share <= 1):
        raise OptionError(
            f"max_share={max_share!r} is out of range: it is a share of the time, above 0 and at most 1 (0.05 is 5 %). "
            "Leave it out to make every survey that is due."
        )


def plain_options(training: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what tells a training as values that JSON holds and that are equal to themselves; None is not told.

    Raises:
        OptionError: no mapping, or a value that is no number, text, truth value, list or dict.
    """
    if training is None:
        return {}
    if not isinstance(training, Mapping):
        raise OptionError(f'training={training!r:.60} must be a dict, such as {{"learning_rate": 3e-4}}.')
    return {str(name): _plain(value, str(name)) for name, value in training.items() if value is not None}


def _plain(value: Any, name: str) -> Any:
    if hasattr(value, "tolist"):
        # an array or a number of NumPy or torch
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        # NaN is unequal to itself, and JSON has no such number
        return str(value)
    if isinstance(value, str | bool | int | float | None):
        return value
    if isinstance(value, Path):
        return str(value)
    raise OptionError(
        f"training= has {name}={value!r:.40}, a {type(value).__name__} that cannot be stored with the course. Give "
        "numbers, texts, truth values, or lists and dicts of them."
    )

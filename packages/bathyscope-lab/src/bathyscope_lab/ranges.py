"""What the options of a recipe may be: a mark on the type of each, and one check for all of them."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from bathyscope.errors import OptionError


class Allowed(NamedTuple):
    """What an option may be: a test of its value, and the same in words."""

    test: Callable[[Any], bool]
    words: str


def _is_size(text: str) -> bool:
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?[KMGT]B", text, re.IGNORECASE)
    return parts is not None and float(parts[1]) > 0


Seed = Annotated[int, Allowed(lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295")]
Count = Annotated[int, Allowed(lambda value: value >= 1, "a whole number from 1 on")]
CountFrom0 = Annotated[int, Allowed(lambda value: value >= 0, "a whole number from 0 on")]
Tokens = Annotated[int, Allowed(lambda value: value >= 2, "a whole number from 2 on")]
Positive = Annotated[float, Allowed(lambda value: 0 < value < math.inf, "a finite number above 0")]
NotNegative = Annotated[float, Allowed(lambda value: 0 <= value < math.inf, "0 or a finite number above it")]
Share = Annotated[float, Allowed(lambda value: 0 <= value <= 1, "a number from 0 to 1")]
PositiveShare = Annotated[float, Allowed(lambda value: 0 < value <= 1, "a number above 0, at most 1")]
Memory = Annotated[float, Allowed(lambda value: 0 <= value < 1, "a number from 0 to below 1")]
Keys = Annotated[
    Mapping[str, Any],
    Allowed(lambda value: isinstance(value, Mapping), "names with their values, such as {name: value}"),
]
Steps = Annotated[
    tuple[int, ...],
    Allowed(lambda value: all(step >= 0 for step in value), "whole numbers from 0 on, such as [0, 100, 1000]"),
]
FileSize = Annotated[str, Allowed(_is_size, "a number above 0 with KB, MB, GB or TB, such as 5GB")]


def check_values(part: Any, where: str) -> None:
    """Raises OptionError where an option's value is not among those that its annotation allows."""
    for name, hint in typing.get_type_hints(type(part), include_extras=True).items():
        allowed, value = _allowed(hint), getattr(part, name)
        if allowed is not None and value is not None and not allowed.test(value):
            raise OptionError(f"{where}: {name}={value!r} is not allowed; give {allowed.words}.")


def _allowed(hint: Any) -> Allowed | None:
    """What an annotation allows, also where it is optional; None where it names but a type."""
    for kind in (hint, *get_args(hint)):
        if get_origin(kind) is Annotated:
            return next(mark for mark in kind.__metadata__ if isinstance(mark, Allowed))
        if get_origin(kind) is Literal:
            return Allowed(get_args(kind).__contains__, f"one of {', '.join(get_args(kind))}")
    return None

"""A bound on what parts of blocks write into the residual stream, as text: ``clamp:1000``, ``zero:1000``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, describe_value, did_you_mean

BoundKind = Literal["clamp", "zero"]
_WORDS: Final = {"clamp": "clamped to", "zero": "left out beyond"}


@dataclass(frozen=True)
class WriteBound:
    """What becomes of the numbers of a contribution whose absolute value is above a bound.

    Args:
        kind: ``clamp`` = the bound itself, with their sign, takes their place; ``zero`` = nothing does.
        value: the bound, above 0.
    """

    kind: BoundKind
    value: float

    @classmethod
    def parse(cls, text: str | WriteBound) -> WriteBound:
        """Return the bound that a text such as ``clamp:1000`` means.

        Raises:
            OptionError: another form, or no finite number above 0.
        """
        if isinstance(text, WriteBound):
            return text
        if not isinstance(text, str):
            raise OptionError(f"A bound is a text such as clamp:1000 or zero:1000; {describe_value(text)} given.")
        name, _, number = text.strip().partition(":")
        kind = next((kind for kind in get_args(BoundKind) if kind == name), None)
        if kind is None:
            near = did_you_mean(name, get_args(BoundKind))
            raise OptionError(f"Unknown bound {elided(repr(text), 40)}.{near} Write clamp:NUMBER or zero:NUMBER.")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"{elided(repr(text), 40)}: a bound is a finite number above 0, such as {kind}:1000.")
        return cls(kind, value)

    def __str__(self) -> str:
        return f"{self.kind}:{self.value:g}"

    @property
    def in_words(self) -> str:
        """What is done to contributions, such as ``contributions clamped to 1000``."""
        return f"contributions {_WORDS[self.kind]} {self.value:g}"

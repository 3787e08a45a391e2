"""Numbers as people read them: one way to write an estimate with its interval, and one rule for a missing number.

A missing number is a dash. An estimate without an interval is its value alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

MISSING: Final = "–"
Form = str | Callable[[float], str]
"""How a number is written: a format, such as ``.4f``, or a function."""


def write_number(value: float | None, form: Form) -> str:
    """Return a number as text; a dash for None and NaN.

    Example:
        >>> write_number(0.5, ".2f"), write_number(float("nan"), ".2f")
        ('0.50', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    return form(value) if callable(form) else format(value, form)


def write_signed(value: float, digits: int = 3) -> str:
    """Return ``+0.125``, ``−0.250`` or ``0.000``, with a minus sign; a dash for a missing value."""
    if math.isnan(value):
        return MISSING
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'−' if value < 0 else '+'}{text}"


def write_plainly(value: float) -> str:
    """Return a count with its digits grouped, and any other number with four digits.

    Example:
        >>> write_plainly(298848.0), write_plainly(9.28714)
        ('298,848', '9.287')
    """
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.4g}"


@dataclass(frozen=True)
class Estimate:
    """A number with its interval.

    Args:
        value: NaN = missing.
        low, high: ends of the interval; NaN = it has none.

    Example:
        >>> f"{Estimate(0.5, 0.25, 0.75):.2f}", f"{Estimate(0.5):+.1f}"
        ('0.50 (0.25 to 0.75)', '+0.5')
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @classmethod
    def of(cls, numbers: Any, name: str, ends: str = "") -> Self:
        """Return the estimate of a name, with the ends ``NAME_low`` and ``NAME_high`` where there are such.

        Args:
            numbers: single numbers by name: a dataset without dimensions, a row of a table, or a mapping.
            ends: what the ends are called in place of the name, such as ``ci`` for ``ci_low`` and ``ci_high``.
        """
        low, high = (f"{ends or name}_{end}" for end in ("low", "high"))
        if low not in numbers:
            return cls(float(numbers[name]))
        return cls(float(numbers[name]), float(numbers[low]), float(numbers[high]))

    @property
    def has_interval(self) -> bool:
        """Whether both ends are known."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def __format__(self, form: str) -> str:
        return self.write(form)

    def write(self, form: Form, unit: str = "") -> str:
        """Return ``value (low to high)``, the value alone without an interval, and a dash for a missing value.

        Args:
            unit: is behind the value, such as ``" points"``.
        """
        if math.isnan(self.value):
            return MISSING
        value = f"{write_number(self.value, form)}{unit}"
        return f"{value} ({self.interval(form)})" if self.has_interval else value

    def write_in_brackets(self, form: Form) -> str:
        """Return ``value, low to high``, for a text that is in brackets already."""
        value = write_number(self.value, form)
        return f"{value}, {self.interval(form)}" if self.has_interval else value

    def interval(self, form: Form) -> str:
        """Return ``low to high``; a dash without an interval."""
        return f"{write_number(self.low, form)} to {write_number(self.high, form)}" if self.has_interval else MISSING

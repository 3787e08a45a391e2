"""How fast a model reads before and after its blocks were left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from bathyscope.core.estimates import Estimate

_FORMER_NAMES: Final = {"ratio_low": "ratio_min", "ratio_high": "ratio_max"}


@dataclass(frozen=True)
class Speeds:
    """Tokens per second of one forward without a cache, before and after.

    Args:
        before, after: tokens over the median seconds of the repeats.
        ratio_min, ratio_max: the smallest and the largest ratio of a pair, between which ``ratio`` always lies.
        tokens: of the prompt that was read.
        repeats: pairs that were timed.
    """

    before: float
    after: float
    ratio_min: float
    ratio_max: float
    tokens: int
    repeats: int

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Speeds:
        """Return the speeds of a record; the ratio follows from them, also where an earlier version stored another.

        Earlier versions called the smallest and the largest ratio as the ends of an interval are called.

        Raises:
            KeyError, TypeError: an entry is missing, or no number.
        """
        named = {_FORMER_NAMES.get(name, name): value for name, value in record.items()}
        numbers = {field.name: named[field.name] for field in fields(cls)}
        for name, value in numbers.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise TypeError(f"its {name} is no number")
        return cls(**numbers)

    @property
    def ratio(self) -> float:
        """Tokens per second after over those before: the one figure for how much faster it is."""
        return self.after / self.before

    def record(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return {**asdict(self), "ratio": self.ratio}

    @property
    def text(self) -> str:
        """What was timed, and the ratio."""
        interval = Estimate(self.ratio, self.ratio_min, self.ratio_max).interval(".3g")
        return (
            f"{self.ratio:.3g} times as fast ({interval} in {self.repeats} pairs of "
            f"forwards of {self.tokens} tokens, on the machine that timed it, as it was)."
        )

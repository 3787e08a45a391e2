"""How fast a model reads before and after its blocks were left out."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Speeds:
    """Tokens per second of one forward without a cache, before and after.

    Args:
        before, after: medians of the repeats.
        ratio, ratio_low, ratio_high: after over before: the median of the pairs, the smallest and the largest.
        tokens: of the prompt that was read.
        repeats: pairs that were timed.
    """

    before: float
    after: float
    ratio: float
    ratio_low: float
    ratio_high: float
    tokens: int
    repeats: int

    def record(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return asdict(self)

    @property
    def text(self) -> str:
        """What was timed, and the ratio."""
        return (
            f"{self.ratio:.3g} times as fast ({self.ratio_low:.3g} to {self.ratio_high:.3g} in {self.repeats} pairs of "
            f"forwards of {self.tokens} tokens, on this machine as it was)."
        )

"""What leaving something out costs: the mean with its interval, the losses before and after, and the predictions.

The sentences of a plan, its page and its card take these numbers, and what follows from them, from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Price:
    """The cost of a plan's choice on its test prompts.

    Args:
        cost, low, high: nats per token, with the ends of the interval, which are NaN without one.
        level: coverage of the interval.
        before, after: loss over all test prompts, nats per token; NaN = unknown.
        changed: share of the top-1 predictions that change; NaN = unknown.
        joint: the cost combines domains, and need not be the difference of the two losses.
    """

    cost: float
    low: float
    high: float
    level: float
    before: float = math.nan
    after: float = math.nan
    changed: float = math.nan
    joint: bool = False

    @classmethod
    def of(cls, data: xr.Dataset) -> Price:
        """Return the price of the choice, the first candidate of a plan's arrays."""
        choice = data.isel(candidate=0)
        has_losses = "full_loss" in data and "cost" in data
        before = float(data["full_loss"].mean(skipna=False)) if has_losses else math.nan
        return cls(
            cost=float(choice["test_cost"]),
            low=float(choice["test_cost_low"]),
            high=float(choice["test_cost_high"]),
            level=float(data.attrs["level"]),
            before=before,
            after=before + float(choice["cost"].mean(skipna=False)) if has_losses else math.nan,
            changed=1 - float(choice["test_agreement"]),
            joint="joint" in data.attrs,
        )

    @property
    def falls(self) -> bool:
        """Whether the interval lies below 0: the prompts are predicted better without the choice."""
        return self.high < 0

    @property
    def may_be_nothing(self) -> bool:
        """Whether the interval holds 0."""
        return self.low <= 0 <= self.high

    @property
    def rise(self) -> float:
        """The difference of the two losses as a share of the first; NaN where it is unknown or not above 0."""
        return (self.after - self.before) / self.before if self.before > 0 else math.nan

    @property
    def interval(self) -> str:
        """The ends of the interval in words."""
        if math.isnan(self.low):
            return "without an interval"
        return f"{self.level:.0%} interval {self.low:.4g} to {self.high:.4g}"

    @property
    def base(self) -> str:
        """Both losses, and the difference in per cent; empty where the first is unknown."""
        if math.isnan(self.after):
            return ""
        verb = "goes"
        if not self.joint and not self.may_be_nothing and not math.isnan(self.low):
            verb = "falls" if self.falls else "rises"
        share = "" if math.isnan(self.rise) else f", {_per_cent(self.rise)}"
        return f"the loss {verb} from {self.before:.4g} to {self.after:.4g}{share}"

    @property
    def change(self) -> str:
        """How many predictions change; empty where that is unknown."""
        return "" if math.isnan(self.changed) else f"{self.changed:.0%} of the top-1 predictions change"

    @property
    def text(self) -> str:
        """The cost, whether it can be told from 0, its base, and the share of changed predictions."""
        doubt = ", which cannot be told from 0" if self.may_be_nothing else ""
        consequences = ", and ".join(part for part in (self.base, self.change) if part)
        return f"{self.cost:.4g} nats per token ({self.interval}){doubt}" + (
            f": {consequences}" if consequences else ""
        )


def _per_cent(share: float) -> str:
    """Return a share with its sign in per cent, with two digits where it is small."""
    return f"{share:+.0%}" if abs(share) >= 0.1 else f"{100 * share:+.2g}%"

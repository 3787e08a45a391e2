"""What leaving something out costs: the mean with its interval, the losses before and after, and the predictions.

The sentences of a plan, its page and its card take these numbers, and what follows from them, from here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import level_text
from bathyscope.statistics.rare import ENOUGH_OF_FEW, FEWEST_OF_SHAPE
from bathyscope.surgery.plan.arrays import FEW_CARRY
from bathyscope.surgery.plan.combining import WORST, Combining

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Price:
    """The cost of a plan's choice on its test prompts.

    Args:
        cost, low, high: nats per token, with the ends of the interval, which are NaN without one.
        level: coverage of the interval.
        before, after: losses of the test prompts, combined as the cost is, which is their difference; NaN = unknown.
        changed: share of the top-1 predictions that change, of the same prompts; NaN = unknown.
        combining: how prompts of domains are combined; None = there are no domains.
        unit: of the cost and the losses, which says what was counted (``unit_of``).
        few_carry: few prompts carry the cost.
        draws: test prompts, or clusters of them, that intervals resample; 0 = unknown.
    """

    cost: float
    low: float
    high: float
    level: float
    before: float = math.nan
    after: float = math.nan
    changed: float = math.nan
    combining: Combining | None = None
    unit: str = "nats per token"
    few_carry: bool = False
    draws: int = 0

    @classmethod
    def of(cls, data: xr.Dataset) -> Price:
        """Return the price of the choice, the first candidate of a plan's arrays."""
        choice = data.isel(candidate=0)
        combining = Combining.of(data)
        has_losses = "full_loss" in data and "cost" in data
        before = combining.combine(data["full_loss"].values) if has_losses else math.nan
        return cls(
            cost=float(choice["test_cost"]),
            low=float(choice["test_cost_low"]),
            high=float(choice["test_cost_high"]),
            level=float(data.attrs["level"]),
            before=before,
            after=before + combining.combine(choice["cost"].values) if has_losses else math.nan,
            changed=1 - float(choice["test_agreement"]) if combining.counts_rates else math.nan,
            combining=combining if combining.joint else None,
            unit=unit_of(data.attrs),
            few_carry=bool(data.attrs.get(FEW_CARRY)),
            draws=int(data.attrs.get("clusters", data.sizes.get("prompt", 0))),
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
    def loss(self) -> str:
        """What the two losses are called: those of all prompts, or of which domains."""
        return "the loss" if self.combining is None else self.combining.loss

    @property
    def where(self) -> str:
        """Which domains the cost is of, behind its unit; empty without domains."""
        return "" if self.combining is None else self.combining.where

    @property
    def interval(self) -> str:
        """The ends of the interval in words."""
        if math.isnan(self.low):
            return f"without an interval{self._why_unbounded}"
        return f"{level_text(self.level)} interval {Estimate(self.cost, self.low, self.high).interval('.4g')}"

    @property
    def _why_unbounded(self) -> str:
        if 1 < self.draws < FEWEST_OF_SHAPE:
            return f": that of a cost needs {FEWEST_OF_SHAPE} test prompts or clusters"
        if not self.few_carry:
            return ""
        if self.combining is not None:
            return ": few prompts of a domain carry it"
        return f": few prompts carry it, and {ENOUGH_OF_FEW} test prompts or clusters would bound it"

    @property
    def base(self) -> str:
        """Both losses, and the difference in per cent; empty where the first is unknown."""
        if math.isnan(self.after):
            return ""
        verb = "goes"
        # the worst of several costs lies above 0 by chance, also where the one domain named cannot be told from it
        is_worst = self.combining is not None and self.combining.joint == WORST
        if not self.may_be_nothing and not math.isnan(self.low) and (self.falls or not is_worst):
            verb = "falls" if self.falls else "rises"
        share = "" if math.isnan(self.rise) else f", {_per_cent(self.rise)}"
        return f"{self.loss} {verb} from {self.before:.4g} to {self.after:.4g}{share}"

    @property
    def change(self) -> str:
        """How many predictions change; empty where that is unknown."""
        if math.isnan(self.changed):
            return ""
        of_domain = "" if self.combining is None or not self.combining.domain else " there"
        return f"{self.changed:.0%} of the top-1 predictions change{of_domain}"

    @property
    def text(self) -> str:
        """The cost, whether it can be told from 0, its base, and the share of changed predictions."""
        doubt = ", which cannot be told from 0" if self.may_be_nothing else ""
        consequences = ", and ".join(part for part in (self.base, self.change) if part)
        return f"{self.cost:.4g} {self.unit}{self.where} ({self.interval}){doubt}" + (
            f": {consequences}" if consequences else ""
        )


def unit_of(attrs: Mapping[str, Any]) -> str:
    """Return what the costs of a plan are counted in: all tokens of a prompt, or those of its answer."""
    return "nats per answer token" if attrs.get("over") == "answer" else "nats per token"


def _per_cent(share: float) -> str:
    """Return a share with its sign in per cent, with two digits where it is small."""
    return f"{share:+.0%}" if abs(share) >= 0.1 else f"{100 * share:+.2g}%"

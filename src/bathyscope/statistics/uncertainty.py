"""How far the truth may be from an estimate: Student's interval, and what few prompts that all agree leave open.

Two prompts of few tokens often read the same, and resamples of them too. No spread is then no certainty: of n prompts
that agree, a share π of all prompts may still be unlike them, as long as (1 − π)^n is not too small (Clopper and
Pearson's interval of none of n), and those lie anywhere within the limits of the reading. Interval, p-value and the
test of equivalence are read off one and the same distance, so that they never contradict each other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy import optimize, stats

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, extended

_LEAST: Final = 1e-9
"""The smallest tail that is looked for."""
_ROUNDING: Final = 1e-12


def agree(values: FloatArray) -> bool:
    """Return whether values are equal but for rounding, and so show no spread."""
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


class Agreed(NamedTuple):
    """A part of an estimate whose prompts show no spread."""

    units: float
    """Prompts or clusters; of unequal weights as many as would average as well."""
    below: float
    """How far the part's smallest possible value is below what it reads; infinite where it has no limits."""
    above: float
    """How far its largest possible value is above it."""


def share_unseen(units: float, tail: float) -> float:
    """Return the largest share of others among all prompts, where none is seen among ``units``, with one ``tail``."""
    return 1 - tail ** (1 / units)


def interval_of_agreed(value: float, units: float, level: float, limits: tuple[float, float]) -> Interval:
    """Return the interval of what ``units`` prompts, or clusters, all read alike; NaN for a value without limits.

    Example:
        >>> from bathyscope.statistics.uncertainty import interval_of_agreed
        >>> low, high = interval_of_agreed(5.0, 10, 0.95, (0.0, 6.0))
        >>> round(low, 2), round(high, 2)
        (3.46, 5.31)
    """
    agreed = Agreed(units, value - limits[0], limits[1] - value)
    return Uncertainty(value, error=0.0, freedom=1.0, agreed=[agreed]).interval(level, limits)


@dataclass(frozen=True)
class Uncertainty:
    """Of an estimate that is a sum of independent parts.

    Args:
        estimate: the sum.
        error: standard error of the parts that show a spread.
        freedom: its degrees of freedom.
        bias: of the estimate; the end that it pulls the estimate away from moves outwards by it.
        agreed: the parts that show none. Distances add up as independent errors do (Newcombe 1998).
    """

    estimate: float
    error: float
    freedom: float
    bias: float = 0.0
    agreed: Sequence[Agreed] = ()

    def interval(self, level: float, limits: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
        """Return both ends, cut to the limits; NaN where prompts agree on a quantity without limits."""
        tail = (1 - level) / 2
        below, above = self._below(tail), self._above(tail)
        if not math.isfinite(below + above):
            return Interval(math.nan, math.nan)
        low = extended(self.estimate, below, self.bias, limits).low
        return Interval(low, extended(self.estimate, above, self.bias, limits).high)

    def p_of_none(self) -> float:
        """Return one minus the level at which the end that faces 0 would reach it; 1 at 0, else NaN without one."""
        if self.estimate == 0:
            return 1.0
        towards_zero = max(math.copysign(1.0, self.estimate) * self.bias, 0.0)
        facing_zero = self._below if self.estimate > 0 else self._above
        p_value = 2 * self._tail(facing_zero, abs(self.estimate) - towards_zero)
        return p_value if math.isnan(p_value) else min(1.0, p_value)

    def p_of_more(self, bound: float) -> float:
        """Return one minus the level at which a one-sided interval would reach ±``bound``; NaN without an interval."""
        above = bound - self.estimate - max(-self.bias, 0.0)
        below = bound + self.estimate - max(self.bias, 0.0)
        return max(self._tail(self._above, above), self._tail(self._below, below))

    def _below(self, tail: float) -> float:
        return self._distance(tail, [part.below for part in self.agreed])

    def _above(self, tail: float) -> float:
        return self._distance(tail, [part.above for part in self.agreed])

    def _distance(self, tail: float, farthest: Sequence[float]) -> float:
        """Return how far the truth is from the estimate on one side, but for one ``tail`` of cases."""
        unseen = [share_unseen(part.units, tail) * most for part, most in zip(self.agreed, farthest) if most > 0]
        return math.hypot(float(stats.t.isf(tail, self.freedom)) * self.error, *unseen)

    def _tail(self, distance_of: Callable[[float], float], distance: float) -> float:
        """Return the tail at which the truth may be ``distance`` away; above one half where that is not positive."""
        if not self.agreed:
            if self.error == 0:
                return 0.0 if distance > 0 else 1.0
            return float(stats.t.sf(distance / self.error, self.freedom))
        if not math.isfinite(distance_of(0.5)):
            return math.nan
        if distance <= distance_of(0.5):
            return 1.0
        if distance > distance_of(_LEAST):
            return _LEAST
        root = optimize.brentq(lambda log: distance_of(math.exp(log)) - distance, math.log(_LEAST), math.log(0.5))
        return math.exp(root)

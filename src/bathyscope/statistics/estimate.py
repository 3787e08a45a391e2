"""One depth estimate: what is read off the mean over prompts, with the interval that resampling them gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DepthEstimate:
    """One estimator's answer. NaN stands for what does not exist, and ``reason`` then says why."""

    depth: float
    """0-based block, block input or boundary, whichever the estimator's curve is indexed by, as published."""
    ratio: float
    """Blocks done / L."""
    ci_low: float
    """Lower end of the interval, in units of ``depth``; over the resamples that meet the criterion."""
    ci_high: float
    """Upper end."""
    crossing_share: float
    """Share of the resamples in which the criterion is met at all; NaN with fewer than two prompts."""
    reason: str = ""
    """Why there is no depth or no interval; empty where both exist."""
    offset: float = 0.0
    """Blocks done at depth 0."""

    @property
    def done(self) -> float:
        """The depth as the number of blocks done, 0 … L, the scale that all estimators share."""
        return self.depth + self.offset

    @property
    def done_low(self) -> float:
        """Lower end of the interval of ``done``."""
        return self.ci_low + self.offset

    @property
    def done_high(self) -> float:
        """Upper end."""
        return self.ci_high + self.offset

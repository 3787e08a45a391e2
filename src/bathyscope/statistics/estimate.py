"""One depth estimate: what is read off the mean over prompts, with the interval that resampling them gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bathyscope.statistics.bootstrap import IntArray, bootstrap_interval, cluster_weights, resample_counts
from bathyscope.statistics.reduce import weighted_mean

FloatArray = NDArray[np.float64]


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


class Means(NamedTuple):
    """Mean curve ``[X]``, resampled ones ``[resamples, X]`` (none from a single prompt or cluster), weights of what is
    drawn: prompts, or clusters."""

    curve: FloatArray
    resampled: FloatArray
    weights: FloatArray

    @classmethod
    def of(
        cls, values: FloatArray, weights: FloatArray, resamples: int, seed: int, cluster: IntArray | None = None
    ) -> Means:
        """Weighted means over the prompts of ``values`` ``[P, X]`` that have any value; ``cluster`` is ``[P]``."""
        has_value = ~np.isnan(values).all(axis=1)
        values, weights = values[has_value], weights[has_value]
        cluster = None if cluster is None else cluster[has_value]
        curve, drawn_weights = weighted_mean(values, weights), cluster_weights(weights, cluster)
        if len(drawn_weights) < 2:
            return cls(curve, np.empty((0, values.shape[1])), drawn_weights)
        counts = resample_counts(len(weights), resamples, np.random.default_rng(seed), cluster)
        return cls(curve, weighted_mean(values, counts * weights), drawn_weights)


class Scale(NamedTuple):
    """The axis of a depth: number of blocks, largest index there is, coverage of the intervals on it, and how many
    blocks are done at index 0."""

    n_blocks: int
    last: int
    level: float
    offset: float = 0.0


def estimate(
    means: Means,
    locate: Callable[[FloatArray], FloatArray],
    explain: Callable[[FloatArray], str],
    scale: Scale,
    *,
    grouped: bool = False,
) -> DepthEstimate:
    """The depth ``locate`` reads off the mean curve, with its interval.

    Parameters
    ----------
    locate
        Curves ``[..., X]`` → depths ``[...]``, NaN where the criterion is not met.
    explain
        Why one curve has no depth; empty where it has one.
    grouped
        As in :func:`bootstrap_interval`.
    """
    depth = float(locate(means.curve))
    drawn = len(means.weights)
    reasons = [explain(means.curve)]
    low, high, share = math.nan, math.nan, math.nan
    if drawn == 1:
        reasons.append("an interval needs at least two prompts with values, and there is one")
    elif drawn > 1:
        resampled = locate(means.resampled)
        low, high = bootstrap_interval(
            depth,
            resampled,
            means.weights,
            level=scale.level,
            limits=(0.0, float(scale.last)),
            grouped=grouped,
        )
        share = float((~np.isnan(resampled)).mean())
        if math.isnan(low) and not math.isnan(depth):
            reasons.append("too few resamples meet the criterion for an interval")
    ratio = (depth + scale.offset) / scale.n_blocks
    return DepthEstimate(depth, ratio, low, high, share, "; ".join(filter(None, reasons)), scale.offset)


def whole_estimate(
    position: DepthEstimate, depth: float, containing: Callable[[float], FloatArray], n_blocks: int, offset: float
) -> DepthEstimate:
    """The whole-numbered estimate of a crossing: its interval is what the interpolated position's touches.

    Parameters
    ----------
    containing
        The whole-numbered depth that belongs to an interpolated one.
    offset
        Blocks done at the whole-numbered depth 0.
    """
    low = np.minimum(containing(position.ci_low), depth)
    high = np.maximum(np.minimum(containing(position.ci_high), n_blocks - 2), depth)
    ratio = (depth + offset) / n_blocks
    return replace(position, depth=depth, ratio=ratio, ci_low=float(low), ci_high=float(high), offset=offset)

"""A share of things that come in clusters, such as tokens in prompts, and the difference of two such shares."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bathyscope.statistics.bootstrap import Interval


def clustered_share(hits: ArrayLike, counts: ArrayLike, level: float = 0.95) -> tuple[float, Interval]:
    """Share of all hits with its interval: Clopper and Pearson's, for the number of independent things that would
    show as much spread as the clusters do.

    Where none or all are hits the clusters show no spread, and things count as independent.
    Source: Korn and Graubard 1998.

    Args:
        hits: [clusters], how many.
        counts: [clusters], of how many; clusters of none are left out.

    Returns:
        The share and its interval; NaN where nothing is counted, NaN ends from a single cluster.
    """
    n = np.asarray(counts, dtype=np.float64)
    x, n = np.asarray(hits, dtype=np.float64)[n > 0], n[n > 0]
    if not n.size:
        return math.nan, Interval(math.nan, math.nan)
    total, share = float(n.sum()), float(x.sum() / n.sum())
    if n.size < 2:
        return share, Interval(math.nan, math.nan)
    variance = n.size / (n.size - 1) * float(((x - share * n) ** 2).sum()) / total**2
    known = total
    if variance > 0:
        quantiles = [float(stats.t.isf((1 - level) / 2, freedom)) for freedom in (max(total - 1, 1), n.size - 1)]
        known = min(total, share * (1 - share) / variance * (quantiles[0] / quantiles[1]) ** 2)
    right, wrong, tail = share * known, (1 - share) * known, (1 - level) / 2
    low = float(stats.beta.ppf(tail, right, wrong + 1)) if right > 0 else 0.0
    high = float(stats.beta.isf(tail, right + 1, wrong)) if wrong > 0 else 1.0
    return share, Interval(low, high)


def difference_of(one: tuple[float, Interval], other: tuple[float, Interval]) -> Interval:
    """Interval of one share less another of independent clusters, from their own (Newcombe 1998, method 10)."""
    (p, own), (q, its) = one, other
    low = p - q - math.hypot(p - own.low, its.high - q)
    return Interval(low, p - q + math.hypot(own.high - p, q - its.low))

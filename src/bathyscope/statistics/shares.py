"""Shares of prompts, or of their tokens, and differences of two shares.

Intervals keep a positive width even when all prompts agree.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError
from bathyscope.options import Share, convert
from bathyscope.statistics.bootstrap import Interval


def clustered_share(hits: ArrayLike, counts: ArrayLike, level: float = 0.95) -> tuple[float, Interval]:
    """Return the share of all hits with Clopper and Pearson's interval.

    The interval is that of as many independent trials as would show the spread that the clusters show. Where none or
    all are hits the clusters show no spread, and all trials count as independent.
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
    # The variance of a ratio over clusters, linearised around the share.
    variance = n.size / (n.size - 1) * float(((x - share * n) ** 2).sum()) / total**2
    effective_trials = total
    if variance > 0:
        # Fewer trials than were counted where clusters vary more than independent trials would; Student's quantiles
        # allow for the few clusters that show this.
        quantiles = [float(stats.t.isf((1 - level) / 2, freedom)) for freedom in (max(total - 1, 1), n.size - 1)]
        effective_trials = min(total, share * (1 - share) / variance * (quantiles[0] / quantiles[1]) ** 2)
    low, high = proportion_confint(share * effective_trials, effective_trials, 1 - level, "beta")
    return share, Interval(float(low), float(high))


def difference_of(first: tuple[float, Interval], second: tuple[float, Interval]) -> Interval:
    """Return the interval of a share minus another one of independent clusters (Newcombe 1998, method 10)."""
    p, first_interval = first
    q, second_interval = second
    low = p - q - math.hypot(p - first_interval.low, second_interval.high - q)
    return Interval(low, p - q + math.hypot(first_interval.high - p, q - second_interval.low))


def share_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Wilson's interval of the share of ones among ``values`` [prompts], each 0 or 1.

    Args:
        values: of the prompts.
        level: its coverage.

    Raises:
        OptionError: no values, or others; a level that is no share.

    Example:
        >>> from bathyscope.extend.statistics import share_interval
        >>> "{:.2f} to {:.2f}".format(*share_interval([1, 1, 1, 0]))
        '0.30 to 0.95'
    """
    convert(Share, level, "level")
    hits = _shares(values)
    low, high = proportion_confint(hits.sum(), hits.size, 1 - level, "wilson")
    return Interval(float(low), float(high))


def share_difference_interval(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Interval:
    """Interval of the share of ones in ``first`` minus that in ``second``, of the same prompts.

    Half a prompt is added to each of the four ways in which a prompt may come out (Agresti and Min 2005), so that
    the interval keeps a positive width even when all prompts agree.

    Args:
        first, second: [prompts], each 0 or 1.
        level: its coverage.

    Raises:
        OptionError: no values, values other than 0 and 1, or of different numbers of prompts; a level that is no share.

    Example:
        >>> from bathyscope.extend.statistics import share_difference_interval
        >>> low, high = share_difference_interval([1, 1, 1, 0], [1, 0, 1, 0])
        >>> bool(low < 0.25 < high)
        True
    """
    convert(Share, level, "level")
    first_hits = _shares(first)
    second_hits = _shares(second)
    if first_hits.size != second_hits.size:
        raise OptionError(
            f"Shares of the same prompts are compared; {first_hits.size} and {second_hits.size} values were given."
        )
    count = first_hits.size + 2
    only_first = (first_hits > second_hits).sum() + 0.5
    only_second = (second_hits > first_hits).sum() + 0.5
    gap = (only_first - only_second) / count
    error = math.sqrt(only_first + only_second - count * gap**2) / count
    reach = float(stats.norm.isf((1 - level) / 2)) * error
    return Interval(max(-1.0, gap - reach), min(1.0, gap + reach))


def are_shares(values: ArrayLike) -> bool:
    """Whether all are 0 or 1."""
    candidates = np.asarray(values, dtype=np.float64)
    return bool(candidates.size and np.isin(candidates, (0.0, 1.0)).all())


def _shares(values: ArrayLike) -> FloatArray:
    hits = np.asarray(values, dtype=np.float64).ravel()
    if not are_shares(hits):
        raise OptionError("A share is of values that are 0 or 1, of one prompt and more.")
    return hits

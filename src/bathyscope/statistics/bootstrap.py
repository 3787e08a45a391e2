"""Bootstrap over prompts: resampled weights, and the interval drawn from the resampled estimates.

Prompts that belong together (windows of one book, questions on one picture) are a *cluster*. Where clusters are given,
they are drawn whole, and their summed weights take the place of the prompts' own: ``cluster`` is [prompts], and
prompts of one number belong together.

The interval allows for few prompts, for their unequal weights, and for the bias of a crossing read off a noisy curve.
docs/design/intervals.md holds the measurements behind the choice.
"""

import math
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.options import Share, convert
from bathyscope.statistics.inputs import numbers_by_prompt, positive_weights, require_limits
from bathyscope.statistics.sampling import Sampling, cluster_weights, require_sampling

_USUAL: Final = Sampling()

BIAS_FACTOR = 2.0
"""Bias of a crossing over what resampling shows of it: 1 on a smooth curve, up to about 2.4 where many equal
entries compete for the maximum that the threshold is a share of."""


class Interval(NamedTuple):
    """A two-sided confidence interval, in the unit of the estimate; NaN without an interval."""

    low: float
    high: float


class SmallSample(NamedTuple):
    """How far the variance that a resampled weighted mean shows can be trusted.

    ``shrinkage`` is the expected share of the true variance that is found (1 − 1/n for n equal weights), and
    ``degrees_of_freedom`` that of the chi-square nearest to it (n − 1 for n equal weights).
    """

    shrinkage: float
    degrees_of_freedom: float


def small_sample(weights: ArrayLike) -> SmallSample:
    """Shrinkage and degrees of freedom of the variance Σ h_i² (x_i − x̄)² of the mean x̄ = Σ h_i x_i.

    ``weights`` is ``[prompts]``, positive, at least two; h are the weights over their sum. The bootstrap's
    variance of x̄ has this form, a quadratic form x'Ax whose mean and variance for independent x of equal
    variance are tr A and 2 tr A²; the degrees of freedom are Satterthwaite's, 2·mean²/variance
    (after Bell and McCaffrey 2002).
    """
    w = np.asarray(weights, dtype=np.float64)
    total = w.sum()
    # In whole token counts these differences are exact, however much one prompt outweighs the others.
    trace = float((w**2 * ((total - w) ** 2 + (w**2).sum() - w**2)).sum() / total**4)
    s2, s3, s4, s5 = (float(((w / total) ** power).sum()) for power in (2, 3, 4, 5))
    # A = diag(h²) + h v' + v h' with v = (s2/2) h − h²; its square's trace is written out because A itself,
    # prompts by prompts, would not fit for a large prompt set. Rounding is cut to what rank n − 1 allows.
    h_v = s2 * s2 / 2 - s3
    v_v = s4 - s2 * s3 + s2**3 / 4
    trace_of_square = s4 + 2 * (s2 * s4 - 2 * s5) + 2 * (h_v * h_v + s2 * v_v)
    degrees_of_freedom = trace**2 / np.clip(trace_of_square, trace**2 / (w.size - 1), trace**2)
    return SmallSample(trace / s2, float(degrees_of_freedom))


def widened(weights: ArrayLike, level: float) -> tuple[float, float]:
    """Return the levels of the two quantiles of resampled means that enclose ``level``.

    They lie further out the fewer prompts there are (Hesterberg 2015). Unlike Student's interval, these quantiles
    never leave the range that means can take.

    ``weights`` is as for :func:`small_sample`.
    """
    shrinkage, degrees_of_freedom = small_sample(weights)
    reach = stats.t.ppf((1 + level) / 2, degrees_of_freedom) / math.sqrt(shrinkage)
    return float(stats.norm.cdf(-reach)), float(stats.norm.cdf(reach))


def bootstrap_interval(
    estimate: float,
    resampled: FloatArray,
    weights: ArrayLike,
    *,
    level: float,
    limits: tuple[float, float],
    grouped: bool = False,
) -> Interval:
    """Student's interval with the bootstrap's standard error, extended against the bias.

    The standard error is the resamples' standard deviation over the root of the shrinkage, the quantile is
    Student's with the degrees of freedom of :func:`small_sample`. The bias is :data:`BIAS_FACTOR` times the
    resamples' median less the estimate; the end it pulls the estimate away from moves outwards by it. The
    other end stays, because few prompts tell little about a bias.

    Args:
        estimate: the estimate from all prompts; the interval always holds it.
        resampled: ``[resamples]`` estimates; NaN ones (criterion not met) are left out.
        weights: ``[prompts]``, positive, at least two: token counts, or ones; those of clusters where these were drawn.
        level: its coverage.
        limits: smallest and largest value there can be; the interval is cut to them.
        grouped: also hold the middle ``level`` share of the resamples: for an estimator that chooses between places, so
            that its resamples are in groups, and a group far from the estimate may be beyond the standard error.

    Returns:
        NaN ends where the estimate is NaN or fewer than two resamples have a value.

    Raises:
        OptionError: a level that is no share.

    Example:
        >>> from bathyscope.extend.statistics import bootstrap_interval, resample_counts
        >>> values = np.array([1.0, 2.0, 3.0, 6.0])
        >>> counts = resample_counts(4, 1000, np.random.default_rng(0))
        >>> largest = np.where(counts > 0, values, 0.0).max(1)
        >>> bootstrap_interval(6.0, largest, np.ones(4), level=0.95, limits=(0.0, 6.0)).high
        6.0
    """
    convert(Share, level, "level")
    existing = resampled[~np.isnan(resampled)]
    if math.isnan(estimate) or existing.size < 2:
        return Interval(math.nan, math.nan)
    shrinkage, degrees_of_freedom = small_sample(weights)
    quantile = float(stats.t.ppf((1 + level) / 2, degrees_of_freedom))
    reach = quantile * float(existing.std(ddof=1)) / math.sqrt(shrinkage)
    low, high = extended(estimate, reach, bias_of(estimate, existing), limits)
    if grouped:
        ends = np.clip(np.quantile(existing, [(1 - level) / 2, (1 + level) / 2]), *limits)
        low, high = min(low, float(ends[0])), max(high, float(ends[1]))
    return Interval(low, high)


def bias_of(estimate: float, resampled: FloatArray) -> float:
    """Return the bias of an estimate, from its resamples ``[R]`` without NaN."""
    return BIAS_FACTOR * (float(np.median(resampled)) - estimate)


def extended(estimate: float, reach: float, bias: float, limits: tuple[float, float]) -> Interval:
    """Return estimate ± reach, with the end against the bias moved outwards by it, cut to the limits."""
    low, high = estimate - reach - max(bias, 0.0), estimate + reach + max(-bias, 0.0)
    return Interval(max(low, limits[0]), min(high, limits[1]))


def mean_interval(
    values: ArrayLike,
    sampling: Sampling = _USUAL,
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
    weights: ArrayLike | None = None,
) -> Interval:
    """Interval of the mean of ``values`` [prompts] by :func:`bootstrap_interval`; each prompt counts the same.

    Means of the same seed and number of prompts are resampled alike. NaN ends with fewer than two prompts, or clusters.

    Args:
        values: [prompts], without NaN.
        sampling: of the prompts.
        limits: smallest and largest mean there can be; the interval is cut to them.
        weights: [prompts], positive, of a weighted mean; None = ones.

    Raises:
        OptionError: not one number for each prompt, a weight that is not positive, a mean outside of the limits, or no
            sampling.

    Example:
        >>> from bathyscope.extend.statistics import Sampling, mean_interval
        >>> low, high = mean_interval([3.0, 4.0, 6.0, 5.0], Sampling(level=0.9), limits=(0.0, 12.0))
        >>> low < 4.5 < high
        True
    """
    require_sampling(sampling)
    numbers = numbers_by_prompt(values, "values")
    weights_P = positive_weights(weights, numbers.size)
    sampled_weights = cluster_weights(weights_P, sampling.cluster)
    if sampled_weights.size < 2:
        return Interval(math.nan, math.nan)
    counts = sampling.counts(numbers.size) * weights_P
    means = counts @ numbers / counts.sum(axis=1)
    estimate = float(weights_P @ numbers / weights_P.sum())
    require_limits(limits, estimate)
    return bootstrap_interval(estimate, means, sampled_weights, level=sampling.level, limits=limits)


def mean_variance(values: ArrayLike, cluster: IntArray | None = None) -> tuple[float, float]:
    """Variance of the mean of ``values`` [prompts], each prompt counting the same, and its degrees of freedom.

    With clusters it is Σ h_c² (x̄_c − x̄)² over their means x̄_c and shares of the prompts h_c, corrected as in
    :func:`small_sample`; equal to the usual s²/n where every cluster is one prompt. NaN below two prompts or clusters.
    """
    observed = np.asarray(values, dtype=np.float64)
    weights = cluster_weights(np.ones(observed.size), cluster)
    if weights.size < 2:
        return math.nan, math.nan
    trust = small_sample(weights)
    share = cluster_weights(observed - observed.mean(), cluster) / observed.size
    return float(share @ share) / trust.shrinkage, trust.degrees_of_freedom


def mean_intervals(
    values_PX: ArrayLike,
    sampling: Sampling = _USUAL,
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
    weights: ArrayLike | None = None,
) -> list[Interval]:
    """:func:`mean_interval` of every column of ``values`` [prompts, X], prompts without a value left out of it."""
    numbers = np.asarray(values_PX, dtype=np.float64)
    weights_P = np.ones(len(numbers)) if weights is None else np.asarray(weights, dtype=np.float64)
    has_value = ~np.isnan(numbers)
    whole = np.flatnonzero(has_value.all(0))
    intervals = [Interval(math.nan, math.nan)] * numbers.shape[1]
    sampled_weights = cluster_weights(weights_P, sampling.cluster)
    if sampled_weights.size > 1 and whole.size:
        counts = sampling.counts(len(numbers)) * weights_P
        means = counts @ numbers[:, whole] / counts.sum(axis=1, keepdims=True)
        # The formulas of bootstrap_interval, for all columns at once: one by one they take ten times as long.
        shrinkage, degrees_of_freedom = small_sample(sampled_weights)
        reach = stats.t.ppf((1 + sampling.level) / 2, degrees_of_freedom) * means.std(0, ddof=1) / math.sqrt(shrinkage)
        mean = weights_P @ numbers[:, whole] / weights_P.sum()
        bias = BIAS_FACTOR * (np.median(means, axis=0) - mean)
        low = np.maximum(mean - reach - np.maximum(bias, 0.0), limits[0])
        high = np.minimum(mean + reach + np.maximum(-bias, 0.0), limits[1])
        for column, ends in zip(whole, zip(low.tolist(), high.tolist())):
            intervals[column] = Interval(*ends)
    for column in np.flatnonzero(~has_value.all(0)):
        chosen = has_value[:, column]
        intervals[column] = mean_interval(
            numbers[chosen, column],
            sampling.take(chosen),
            limits=limits,
            weights=weights_P[chosen],
        )
    return intervals


def joint_mean_intervals(
    values_PX: ArrayLike,
    sampling: Sampling = _USUAL,
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> list[Interval]:
    """:func:`mean_intervals` that hold for all columns at once, for what is picked from them, such as the largest.

    The error is divided by the number of columns that have a value (Bonferroni), so that all intervals hold with the
    sampling's level or more, however the columns go together.
    """
    numbers = np.asarray(values_PX, dtype=np.float64)
    return mean_intervals(numbers, joint_sampling(numbers, sampling), limits=limits)


def joint_sampling(values_PX: FloatArray, sampling: Sampling) -> Sampling:
    """Return the sampling of intervals of single columns [prompts, X] that hold for all of them at once."""
    columns = max(1, int((~np.isnan(values_PX)).any(axis=0).sum()))
    return replace(sampling, level=1 - (1 - sampling.level) / columns)

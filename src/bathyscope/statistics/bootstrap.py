"""Bootstrap over prompts: resampled weights, and the interval drawn from the resampled estimates.

The interval allows for few prompts, for their unequal weights, and for the bias of a crossing read off a
noisy curve. docs/design/intervals.md holds the measurements behind the choice.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bathyscope.errors import OptionError

FloatArray = NDArray[np.float64]


BIAS_FACTOR = 2.0
"""Bias of a crossing over what resampling shows of it: 1 on a smooth curve, up to about 2.4 where many equal
entries compete for the maximum that the threshold is a share of."""


class Interval(NamedTuple):
    """A two-sided confidence interval, in the unit of the estimate; NaN where there is none."""

    low: float
    high: float


class SmallSample(NamedTuple):
    """How far the variance that a resampled weighted mean shows can be trusted.

    ``shrinkage`` is the expected share of the true variance that is found (1 − 1/n for n equal weights), and
    ``degrees_of_freedom`` that of the chi-square nearest to it (n − 1 for n equal weights).
    """

    shrinkage: float
    degrees_of_freedom: float


def resample_counts(n_prompts: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each prompt is drawn with replacement: ``[resamples, n_prompts]``, rows summing to n_prompts.

    Times the prompts' own weights, these are the weights of the resampled means.
    """
    drawn = rng.integers(n_prompts, size=(resamples, n_prompts))
    cell = drawn + n_prompts * np.arange(resamples)[:, None]
    counts = np.bincount(cell.ravel(), minlength=resamples * n_prompts)
    return counts.reshape(resamples, n_prompts).astype(np.float64)


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

    Parameters
    ----------
    estimate
        The estimate from all prompts; the interval always holds it.
    resampled
        ``[resamples]`` estimates; NaN ones (criterion not met) are left out.
    weights
        ``[prompts]``, positive, at least two: token counts, or ones.
    level
        Wanted coverage, in (0, 1).
    limits
        Smallest and largest value there can be; the interval is cut to them.
    grouped
        Also hold the middle ``level`` share of the resamples: for an estimator that chooses between places, so
        that its resamples lie in groups, and a group far from the estimate may be beyond the standard error.

    Returns
    -------
    NaN ends where the estimate is NaN or fewer than two resamples have a value.
    """
    found = resampled[~np.isnan(resampled)]
    if math.isnan(estimate) or found.size < 2:
        return Interval(math.nan, math.nan)
    shrinkage, degrees_of_freedom = small_sample(weights)
    quantile = float(stats.t.ppf((1 + level) / 2, degrees_of_freedom))
    reach = quantile * float(found.std(ddof=1)) / math.sqrt(shrinkage)
    bias = BIAS_FACTOR * (float(np.median(found)) - estimate)
    low = estimate - reach - max(bias, 0.0)
    high = estimate + reach + max(-bias, 0.0)
    if grouped:
        ends = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
        low, high = min(low, float(ends[0])), max(high, float(ends[1]))
    return Interval(max(low, limits[0]), min(high, limits[1]))


def mean_interval(
    values: ArrayLike,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """Interval of the mean of ``values`` [prompts], each prompt counting the same, by :func:`bootstrap_interval`.

    Means of the same seed and number of prompts are resampled alike. NaN ends with fewer than two prompts.
    """
    given = np.asarray(values, dtype=np.float64)
    if given.size < 2:
        return Interval(math.nan, math.nan)
    drawn = resample_counts(given.size, resamples, np.random.default_rng(seed)) @ given / given.size
    return bootstrap_interval(float(given.mean()), drawn, np.ones(given.size), level=level, limits=limits)


def check_resampling(resamples: int, level: float) -> None:
    """An OptionError where there are no resamples or ``level`` is not in (0, 1)."""
    if resamples < 1:
        raise OptionError(f"resamples is {resamples}; give a whole number of at least 1 (usual: 1000).")
    if not 0 < level < 1:
        raise OptionError(f"level is {level}; it is the wanted coverage: give a number between 0 and 1 (usual: 0.95).")

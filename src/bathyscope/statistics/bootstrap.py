"""Bootstrap over prompts: resampled weights, and the interval drawn from the resampled estimates.

The interval is a percentile interval whose levels are widened for few prompts of unequal weight, and for the
bias that crossings of a noisy curve have. docs/design/intervals.md holds the measurements behind the choice.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bathyscope.errors import OptionError

FloatArray = NDArray[np.float64]


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
    h = np.asarray(weights, dtype=np.float64)
    h = h / h.sum()
    s2, s3, s4, s5 = (float((h**power).sum()) for power in (2, 3, 4, 5))
    # A = diag(h²) + h v' + v h' with v = (s2/2) h − h²; the traces are written out because A itself, prompts
    # by prompts, would not fit for a large prompt set.
    h_v = s2 * s2 / 2 - s3
    v_v = s4 - s2 * s3 + s2**3 / 4
    trace = s2 - 2 * s3 + s2 * s2
    trace_of_square = s4 + 2 * (s2 * s4 - 2 * s5) + 2 * (h_v * h_v + s2 * v_v)
    return SmallSample(trace / s2, trace * trace / trace_of_square)


def bootstrap_interval(
    estimate: float, resampled: FloatArray, weights: ArrayLike, *, level: float = 0.95, discrete: bool = False
) -> Interval:
    """Percentile interval at levels widened for small samples and for bias.

    The normal quantile of the plain percentile interval becomes Student's with the degrees of freedom of
    :func:`small_sample`, over the root of the shrinkage (Hesterberg 2015, there for equal weights). Where the
    resamples do not lie evenly about the estimate, Efron's (1981) bias correction 2·Φ⁻¹(share below) moves
    the end it points to outwards; the other end stays, because few prompts estimate the bias poorly.

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
    discrete
        Whole-numbered estimates: ends are rounded outwards to values that occur.

    Returns
    -------
    NaN ends where the estimate is NaN or no resample has a value.
    """
    found = resampled[~np.isnan(resampled)]
    if math.isnan(estimate) or not found.size:
        return Interval(math.nan, math.nan)
    shrinkage, degrees_of_freedom = small_sample(weights)
    reach = stats.t.ppf((1 + level) / 2, degrees_of_freedom) / math.sqrt(shrinkage)
    bias = stats.norm.ppf(_share_below(estimate, found))
    low_level, high_level = stats.norm.cdf([min(2 * bias, 0) - reach, max(2 * bias, 0) + reach])
    low = float(np.quantile(found, low_level, method="lower" if discrete else "linear"))
    high = float(np.quantile(found, high_level, method="higher" if discrete else "linear"))
    return Interval(min(low, estimate), max(high, estimate))


def check_resampling(resamples: int, level: float) -> None:
    """An OptionError where there are no resamples or ``level`` is not in (0, 1)."""
    if resamples < 1:
        raise OptionError(f"resamples is {resamples}; give a whole number of at least 1 (usual: 1000).")
    if not 0 < level < 1:
        raise OptionError(
            f"level is {level}; it is the wanted coverage: give a number between 0 and 1 (usual: 0.95)."
        )


def _share_below(estimate: float, resampled: FloatArray) -> float:
    share = (resampled < estimate).mean() + (resampled == estimate).mean() / 2
    least = 0.5 / resampled.size
    return float(np.clip(share, least, 1 - least))

"""Does a score rise or fall with difficulty? Slope, interval, effect sizes and a test.

Difficulties often have few and unequal numbers of prompts, and unequal spreads. The interval is Student's with the
standard error HC3 (MacKinnon and White 1985) and the degrees of freedom of Bell and McCaffrey (2002). The test is a
wild bootstrap under the hypothesis that the mean score does not go with difficulty: deviations from the mean keep
their size and get random signs, and the statistic is the slope over its own robust standard error (Davidson and
Flachaire 2008). Where prompts are in clusters, these are what counts: the standard error is CR3, which leaves out one
cluster at a time, and a cluster's deviations get one sign (Cameron, Gelbach and Miller 2008). docs/design/intervals.md
holds their coverage and size. A large p-value alone does not say that there is no trend; the interval of the slope says
how much of one the prompts leave possible.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.options import Range, Seed, Share, convert
from bathyscope.statistics.bootstrap import Interval
from bathyscope.statistics.inputs import numbers_by_prompt, require_one_by_prompt

FEWEST = 3
"""Prompts below which a slope is not told from chance at all: two points always lie on a line."""
_SIGNS: Final = Annotated[int, Range(1)]
_CHUNK = 1 << 22
_LEVERAGE_ONE = 1 - 1e-9


@dataclass(frozen=True)
class Trend:
    """How a score goes with difficulty. NaN stands for what does not exist, and ``reason`` then says why."""

    slope: float = math.nan
    """Least-squares slope: units of the score for each unit of difficulty."""
    ci_low: float = math.nan
    """Lower end of the slope's interval."""
    ci_high: float = math.nan
    """Upper end."""
    effect_size: float = math.nan
    """Slope over the pooled standard deviation of the scores within one difficulty."""
    rank_correlation: float = math.nan
    """Spearman's correlation of score and difficulty, −1 … 1."""
    p_value: float = math.nan
    """Share of the random signs with at least as clear a slope, up or down; never 0."""
    reason: str = ""
    """Why a value is missing; empty where all exist."""


def trend(
    scores: ArrayLike,
    difficulty: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    permutations: int = 9999,
    coverage: float = 0.95,
    seed: int = 0,
) -> Trend:
    """The trend of ``scores`` over ``difficulty``, both ``[prompts]``; prompts with a NaN are left out.

    The p-value is two-sided. Where there are no more than ``permutations`` ways to sign the deviations, all of them are
    tried and it is the exact share; else it is (1 + those at least as clear) / (1 + ``permutations``), as the given
    signs are one of the possible ways (Phipson and Smyth 2010).

    Args:
        scores: of the prompts.
        difficulty: of the prompts, such as the steps that they take.
        cluster: ``[prompts]``, prompts of one number belong together; None, or a number for every prompt, = each for
            itself.
        permutations: random signs that are tried.
        coverage: of the interval.
        seed: of the signs.

    Raises:
        OptionError: not one number of each kind for each prompt, a coverage that is no share, or no whole number of
            permutations.

    Example:
        >>> from bathyscope.extend.statistics import trend
        >>> found = trend([3.0, 4.5, 5.0, 7.0, 7.5, 9.0], [1, 2, 3, 4, 5, 6])
        >>> round(found.slope, 2), found.ci_low > 0
        (1.17, True)
    """
    convert(Share, coverage, "coverage")
    convert(_SIGNS, permutations, "permutations")
    convert(Seed, seed, "seed")
    y, x, member = _paired(scores, difficulty, cluster)
    what, units = ("prompts", y.size) if member is None else ("clusters of prompts", int(member.max(initial=-1)) + 1)
    if units < FEWEST:
        reason = f"a trend needs at least {FEWEST} {what} with a score and a difficulty; there are {units}"
        return Trend(reason=reason)
    if np.ptp(x) == 0:
        return Trend(reason=f"a trend needs at least two difficulties; all {y.size} prompts have {x[0]:g}")
    x, centred_y = x - x.mean(), y - y.mean()
    slope = float(x @ centred_y / (x @ x))
    low, high = _interval(x, centred_y, slope, coverage, member)
    spread = _spread_within(x, y)
    varied = bool(np.ptp(y) > 0)
    reasons = [
        f"one {'prompt' if member is None else 'cluster'} decides the slope alone, so there is no interval"
        if math.isnan(low)
        else "",
        "" if varied else "all prompts have the same score, so there is no rank correlation",
        "" if spread > 0 else "scores do not differ within a difficulty, so there is no effect size",
    ]
    return Trend(
        slope=slope,
        ci_low=low,
        ci_high=high,
        effect_size=slope / spread if spread > 0 else math.nan,
        rank_correlation=float(stats.spearmanr(x, y).statistic) if varied else math.nan,
        p_value=_sign_flip_p(x, centred_y, member, permutations, seed),
        reason="; ".join(filter(None, reasons)),
    )


def _paired(
    scores: ArrayLike, difficulty: ArrayLike, cluster: ArrayLike | None
) -> tuple[FloatArray, FloatArray, IntArray | None]:
    """Scores, difficulties and clusters (numbered from 0) of the prompts that have both; None where each is its own."""
    y = numbers_by_prompt(scores, "scores")
    x = numbers_by_prompt(difficulty, "difficulty", y.size)
    has_both = np.isfinite(y) & np.isfinite(x)
    if cluster is None:
        return y[has_both], x[has_both], None
    require_one_by_prompt(np.asarray(cluster), "cluster", y.size)
    # Clusters of one prompt each are prompts that stand alone.
    member = np.unique(np.asarray(cluster)[has_both], return_inverse=True)[1]
    alone = int(member.max(initial=-1)) + 1 == member.size
    return y[has_both], x[has_both], None if alone else member


def _interval(x: FloatArray, y: FloatArray, slope: float, coverage: float, member: IntArray | None) -> Interval:
    """Return Student's interval of the slope of y over x, both centred, with CR3 errors over clusters.

    CR3 is HC3 where each prompt is its own cluster. NaN where a single prompt or cluster decides the slope.
    """
    variance_and_freedom = _cr3(x, y - slope * x, np.arange(x.size) if member is None else member)
    if variance_and_freedom is None:
        return Interval(math.nan, math.nan)
    variance, freedom = variance_and_freedom
    reach = float(stats.t.ppf((1 + coverage) / 2, freedom)) * math.sqrt(variance)
    return Interval(slope - reach, slope + reach)


def _cr3(x: FloatArray, residual: FloatArray, member: IntArray) -> tuple[float, float] | None:
    """Variance of the slope, by squares of what leaving out one cluster at a time does to it; its degrees of freedom.

    None where one of them has leverage 1.
    """
    size, n = float(x @ x), x.size
    count, sum_x, sum_xx = (np.bincount(member, weights=w) for w in (np.ones(n), x, x * x))
    # what is left of (n, Σx; Σx, Σx²) without the cluster, and its determinant; at 0 no line is left to fit
    left = (n - count) * (size - sum_xx) - sum_x**2
    if left.min() <= (1 - _LEVERAGE_ONE) * n * size:
        return None
    # leaving out cluster g moves the slope by −c_g'e, c being 0 outside of g
    c = ((n - count)[member] * x + sum_x[member]) / left[member]
    moved = np.bincount(member, weights=c * residual)
    # The variance is y'MCC'My with M = 1 − H, H_ij = 1/n + x_i x_j / Σx², and the c_g as columns of C; Satterthwaite's
    # degrees of freedom are tr² / tr of the square of C'MC = diag(c_g'c_g) − uu' − vv', written out because it would
    # not fit for many prompts.
    squares = np.bincount(member, weights=c * c)
    u, v = np.bincount(member, weights=c) / math.sqrt(n), np.bincount(member, weights=c * x) / math.sqrt(size)
    trace = float(squares.sum() - u @ u - v @ v)
    square = float(squares @ squares - 2 * squares @ (u * u + v * v) + (u @ u) ** 2 + 2 * (u @ v) ** 2 + (v @ v) ** 2)
    return float(moved @ moved), trace**2 / square


def _spread_within(x: FloatArray, y: FloatArray) -> float:
    """Pooled standard deviation of y within equal x; NaN where no x has two prompts."""
    levels, member = np.unique(x, return_inverse=True)
    if y.size == levels.size:
        return math.nan
    counts = np.bincount(member)
    residual = y - (np.bincount(member, weights=y) / counts)[member]
    # a difference that is rounding only is none
    residual[np.abs(residual) <= 1e-12 * np.abs(y).max()] = 0.0
    return math.sqrt(float(residual @ residual) / (y.size - levels.size))


def _sign_flip_p(x: FloatArray, y: FloatArray, member: IntArray | None, permutations: int, seed: int) -> float:
    def statistic(signed: FloatArray, axis: int = -1) -> FloatArray:
        return _clearness(signed if member is None else y * np.take(signed, member, axis=-1), x, member)

    test = stats.permutation_test(
        (y if member is None else np.ones(int(member.max()) + 1),),
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=permutations,
        batch=max(1, _CHUNK // y.size),
        alternative="greater",
        random_state=np.random.default_rng([seed, 1]),
        axis=-1,
    )
    return float(test.pvalue)


def _clearness(y: FloatArray, x: FloatArray, member: IntArray | None) -> FloatArray:
    """|t| / √(1 + t²), in [0, 1], of the slope's robust t; x centred, y [..., prompts]."""
    y = y - y.mean(axis=-1, keepdims=True)
    covariance = np.asarray(y @ x)
    residual = y - (covariance / (x @ x))[..., None] * x
    if member is None:
        squares = x * x * residual**2
    else:
        squares = ((x * residual) @ (member[:, None] == np.arange(member.max() + 1)).astype(np.float64)) ** 2
    size = np.sqrt(covariance**2 + squares.sum(axis=-1))
    return np.divide(np.abs(covariance), size, out=np.zeros_like(size), where=size > 0)

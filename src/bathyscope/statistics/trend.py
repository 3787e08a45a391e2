"""Does a score rise or fall with difficulty? Slope, interval, effect sizes and a permutation test.

The null hypothesis of the test is that difficulties are exchangeable between prompts: the labels could have been
dealt out in any order. The test is exact for it whatever the scores' distribution. Its statistic is the slope
over its own standard error, so that it keeps its level, for not too few prompts, also where difficulties differ
in spread and in number of prompts but not in mean (DiCiccio and Romano 2017). A large p-value alone does not say
that there is no trend; the interval of the slope says how much of one the prompts leave possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.statistics.bootstrap import bootstrap_interval, check_resampling, resample_counts

FloatArray = NDArray[np.float64]

FEWEST = 3
"""Prompts below which a slope is not told from chance at all: two points always lie on a line."""
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Trend:
    """How a score goes with difficulty. NaN stands for what does not exist, and ``reason`` then says why."""

    slope: float
    """Least-squares slope: units of the score for each unit of difficulty."""
    ci_low: float
    """Lower end of the slope's interval (bootstrap over prompts)."""
    ci_high: float
    """Upper end."""
    effect_size: float
    """Slope over the pooled standard deviation of the scores within one difficulty."""
    rank_correlation: float
    """Spearman's correlation of score and difficulty, −1 … 1."""
    p_value: float
    """Share of the dealings of difficulties with at least as clear a slope, up or down; never 0."""
    reason: str = ""
    """Why a value is missing; empty where all exist."""


def trend(
    scores: ArrayLike,
    difficulty: ArrayLike,
    *,
    permutations: int = 9999,
    resamples: int = 1000,
    coverage: float = 0.95,
    seed: int = 0,
) -> Trend:
    """The trend of ``scores`` over ``difficulty``, both ``[prompts]``; prompts with a NaN are left out.

    The p-value is two-sided. Where there are no more than ``permutations`` orders of the prompts, all of them are
    tried and it is the exact share; else it is (1 + those at least as clear) / (1 + ``permutations``), as the given
    order is one of the possible ones (Phipson and Smyth 2010).

    Parameters
    ----------
    permutations
        Number of random orders, at least 1; the smallest p-value is 1 / (1 + ``permutations``).
    resamples
        Number of bootstrap resamples of the interval, at least 1.
    coverage
        Wanted coverage of the interval, in (0, 1).
    seed
        Seed of orders and resamples; equal inputs and seed give equal results.

    Raises
    ------
    OptionError
        Where the lengths differ or an option is out of its range.
    """
    check_resampling(resamples, coverage)
    if permutations < 1:
        raise OptionError(f"permutations is {permutations}; give a whole number of at least 1 (usual: 9999).")
    y, x = _paired(scores, difficulty)
    if y.size < FEWEST:
        return _none(f"a trend needs at least {FEWEST} prompts with a score and a difficulty; there are {y.size}")
    if np.ptp(x) == 0:
        return _none(f"a trend needs at least two difficulties; all {y.size} prompts have {x[0]:g}")
    slope = float(_slopes(x, y, np.ones(y.size)))
    # drawing prompts with their difficulty; a draw of a single difficulty has no slope
    counts = resample_counts(y.size, resamples, np.random.default_rng([seed, 0]))
    resampled = _slopes(x, y, counts)
    low, high = bootstrap_interval(slope, resampled, np.ones(y.size), level=coverage, limits=(-math.inf, math.inf))
    spread = _spread_within(x, y)
    varied = bool(np.ptp(y) > 0)
    reasons = [
        "" if varied else "all prompts have the same score, so there is no rank correlation",
        "" if spread > 0 else "scores do not differ within a difficulty, so there is no effect size",
    ]
    return Trend(
        slope=slope,
        ci_low=low,
        ci_high=high,
        effect_size=slope / spread if spread > 0 else math.nan,
        rank_correlation=float(stats.spearmanr(x, y).statistic) if varied else math.nan,
        p_value=_permutation_p(x, y, permutations, seed),
        reason="; ".join(filter(None, reasons)),
    )


def _paired(scores: ArrayLike, difficulty: ArrayLike) -> tuple[FloatArray, FloatArray]:
    y, x = np.asarray(scores, dtype=np.float64), np.asarray(difficulty, dtype=np.float64)
    if y.ndim != 1 or y.shape != x.shape:
        raise OptionError(
            f"Scores of shape {list(y.shape)} and difficulties of shape {list(x.shape)} do not fit; "
            "both are [prompts]: give one difficulty for each score."
        )
    known = np.isfinite(y) & np.isfinite(x)
    return y[known], x[known]


def _none(reason: str) -> Trend:
    return Trend(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, reason)


def _slopes(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Least-squares slopes under ``weights`` [..., prompts]; NaN where only one difficulty has weight."""
    x, y = x - x.mean(), y - y.mean()
    total = weights.sum(axis=-1)
    mean_x, mean_y = weights @ x / total, weights @ y / total
    covariance = weights @ (x * y) / total - mean_x * mean_y
    variance = weights @ (x * x) / total - mean_x**2
    single = variance <= 1e-12 * np.max(x * x)
    return np.divide(covariance, variance, out=np.full_like(variance, np.nan), where=~single)


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


def _permutation_p(x: FloatArray, y: FloatArray, permutations: int, seed: int) -> float:
    centred_y = y - y.mean()
    found = stats.permutation_test(
        (x - x.mean(),),
        lambda order, axis=-1: _clearness(order, centred_y),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=permutations,
        batch=max(1, _CHUNK // y.size),
        alternative="greater",
        random_state=np.random.default_rng([seed, 1]),
        axis=-1,
    )
    return float(found.pvalue)


def _clearness(x: FloatArray, y: FloatArray) -> FloatArray:
    """|t| / √(1 + t²), in [0, 1], of the slope's heteroscedasticity-robust t; both centred, x [..., prompts]."""
    covariance = np.asarray(x @ y)
    residual = y - (covariance / (x * x).sum(axis=-1))[..., None] * x
    size = np.sqrt(covariance**2 + (x * x * residual**2).sum(axis=-1))
    return np.divide(np.abs(covariance), size, out=np.zeros_like(size), where=size > 0)

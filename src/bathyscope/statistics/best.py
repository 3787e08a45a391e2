"""Which of several candidates cannot be told from the best: all paired differences, with one bound on any error.

The best is chosen on the same prompts that judge it. So a difference from it counts only where it is larger than the
largest of *all* differences between two candidates would be by chance (single-step maximum statistic, family-wise
error at most 1 − level whichever candidate turns out best). Resampling is paired: one draw of prompts serves all.
Source: Westfall and Young 1993 (max statistic); Hsu 1996 (comparisons with the best).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.statistics.bootstrap import bootstrap_interval, check_resampling, resample_counts, small_sample

FloatArray = NDArray[np.float64]
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Compared:
    """Candidates beside the one with the smallest mean, arrays [candidates]."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    """Ends of each mean's own interval; NaN from a single prompt."""
    best: int
    """The candidate with the smallest mean, the first of equal ones."""
    p_value: FloatArray
    """Of no difference from the best, corrected for all pairs; 1 for the best, NaN from a single prompt."""
    indistinguishable: NDArray[np.bool_]
    """The difference from the best is within what chance does at the level; True where there is no p-value."""


def compared_with_best(values: ArrayLike, *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> Compared:
    """Means of candidates over the same prompts, and which cannot be told from the smallest.

    Args:
        values: [candidates, prompts], finite.
        resamples: bootstrap resamples of the prompts; no p-value is below 1 / (resamples + 1).
        level: coverage of each interval, and of all comparisons together.

    Raises:
        OptionError: no candidate or no prompt; an option out of its range.
    """
    check_resampling(resamples, level)
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 2 or 0 in given.shape:
        raise OptionError(f"Values to compare are [candidates, prompts]; an array of shape {given.shape} was given.")
    mean = given.mean(axis=1)
    best, prompts = int(np.argmin(mean)), given.shape[1]
    none = np.full(len(mean), math.nan)
    if prompts < 2:
        return Compared(mean, none, none, best, none, np.ones(len(mean), dtype=bool))
    counts = resample_counts(prompts, resamples, np.random.default_rng(seed))
    drawn = given @ counts.T / prompts
    own = [
        bootstrap_interval(float(one), row, np.ones(prompts), level=level, limits=(-math.inf, math.inf))
        for one, row in zip(mean, drawn)
    ]
    p_value = _p_values(mean, drawn, best, prompts)
    low, high = (np.array(ends) for ends in zip(*own))
    return Compared(mean, low, high, best, p_value, p_value >= 1 - level)


def _p_values(mean: FloatArray, drawn: FloatArray, best: int, prompts: int) -> FloatArray:
    """Share of the resamples whose largest standardised difference of any pair reaches that from the best."""
    trusted = small_sample(np.ones(prompts))
    scale = max(float(np.abs(mean).max()), _ROUNDING)
    largest = np.zeros(drawn.shape[1])
    for one, other in combinations(range(len(mean)), 2):
        apart = drawn[one] - drawn[other]
        error = float(apart.std(ddof=1)) if len(apart) > 1 else 0.0
        if error > _ROUNDING * scale:
            largest = np.maximum(largest, np.abs(apart - (mean[one] - mean[other])) / error)
    found = np.ones(len(mean))
    for candidate in range(len(mean)):
        difference = mean[candidate] - mean[best]
        if candidate == best or difference <= _ROUNDING * scale:
            continue
        error = float((drawn[candidate] - drawn[best]).std(ddof=1)) / math.sqrt(trusted.shrinkage)
        if error <= _ROUNDING * scale:
            found[candidate] = 0.0
        else:
            # few prompts know their own spread badly: Student's tail, on the scale of the resamples
            reached = stats.norm.isf(stats.t.sf(difference / error, trusted.degrees_of_freedom))
            found[candidate] = float((largest >= reached).mean())
    return np.where(np.arange(len(mean)) == best, 1.0, np.maximum(found, 1 / (drawn.shape[1] + 1)))

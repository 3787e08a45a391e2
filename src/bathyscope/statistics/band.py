"""A band: the longest run of places at each of which one curve is shown to lie above another, or none.

That a mean difference is above 0 somewhere is no evidence where many places are looked at. Under the null hypothesis
that neither curve is better anywhere, a prompt's differences could as well have had the other sign, all of them
together. A run is as strong as its weakest place, by Σx / √Σx² over prompts, which rises with Student's t. The
strongest run that such signs give, over all runs, says how strong a run must be; the band is the longest run that is,
and its p-value is that of its own weakest place. Its mean difference must also have an interval above 0. The signs
are exact for differences that are symmetric about their mean. Sources: Westfall and Young 1993 (the largest statistic
corrects for all places); Nichols and Holmes 2002 (signs). The intervals come from a bootstrap over prompts.

Suffixes: P prompts, U units (prompts, or their clusters), B places, X resamples or assignments of signs.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval, cluster_weights, mean_interval
from bathyscope.statistics.sampling import Sampling

ASSIGNMENTS = 9999
"""Signs are drawn so often where there are more ways to assign them."""

_ROUNDING: Final = 1e-9
"""Rounding must not decide between assignments that give the same run."""

_NOTHING: Final = Interval(math.nan, math.nan)


@dataclass(frozen=True)
class Band:
    """The longest run of places at each of which the mean difference is shown to be above 0.

    Args:
        first, last: its ends; NaN without a band.
        p: of the weakest place in the run, or of the strongest one where no place is strong enough; allows for all
            places. NaN with fewer than two prompts (clusters).
        gain: mean difference over the run; NaN where no place is strong enough.
        first_interval, last_interval: of the ends.
        gain_interval: of the gain; a run whose interval holds 0 is no band.
    """

    first: float
    last: float
    p: float
    gain: float = math.nan
    first_interval: Interval = _NOTHING
    last_interval: Interval = _NOTHING
    gain_interval: Interval = _NOTHING


def find_band(differences_PB: FloatArray, sampling: Sampling) -> Band:
    """Return the band of some prompts' differences; prompts without a value are left out.

    Fewer than five prompts (clusters) can have no band at a level of 95 %: their signs are too few.

    Args:
        differences_PB: above 0 where the curve in question is the better one; a place without the value of a prompt
            that has others is in no band.
        sampling: of the intervals, and 1 − level is the largest p-value of a band; its clusters have signs in common.
    """
    has_value = ~np.isnan(differences_PB).all(1)
    sampling = sampling.take(has_value)
    values_PB = differences_PB[has_value]
    is_complete = ~np.isnan(values_PB).any(0)
    weights = cluster_weights(np.ones(len(values_PB)), sampling.cluster)
    if weights.size < 2 or not is_complete.any():
        return Band(math.nan, math.nan, math.nan)
    members = np.arange(len(values_PB)) if sampling.cluster is None else sampling.cluster
    _, first_member, unit_of_prompt = np.unique(members, return_index=True, return_inverse=True)
    totals_UB = np.zeros((weights.size, values_PB.shape[1]))
    np.add.at(totals_UB, unit_of_prompt, np.where(is_complete, values_PB, 0.0))
    null = _NullOfRuns(totals_UB[:, is_complete], sampling.seed)

    def p_values(counts_XU: FloatArray) -> FloatArray:
        return np.where(is_complete, null.p_values(strengths(counts_XU, totals_UB, totals_UB**2)), 1.0)

    p_B = p_values(np.ones((1, weights.size)))[0]
    most = 1 - sampling.level
    first, last = (float(end[0]) for end in longest_run(p_B[None] <= most))
    if math.isnan(first):
        return Band(math.nan, math.nan, float(p_B.min()))
    run = slice(int(first), int(last) + 1)
    p = float(p_B[run].max())
    gain_P = values_PB[:, run].mean(1)
    gain, gain_interval = float(gain_P.mean()), mean_interval(gain_P, sampling)
    if not gain_interval.low > 0:
        return Band(math.nan, math.nan, p, gain, gain_interval=gain_interval)
    # all prompts of a cluster are drawn equally often
    counts_XU = sampling.counts(len(values_PB))[:, first_member]
    limits = (0.0, len(p_B) - 1.0)
    first_interval, last_interval = (
        # the longest run may be another one in a resample, so that ends are in groups
        bootstrap_interval(end, resampled_X, weights, level=sampling.level, limits=limits, grouped=True)
        for end, resampled_X in zip((first, last), longest_run(p_values(counts_XU) <= most))
    )
    return Band(first, last, p, gain, first_interval, last_interval, gain_interval)


def longest_run(above_XB: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Return the first and the last place of each row's longest run of True, [X]; NaN without one.

    The first of equally long runs counts.
    """
    run_X = np.zeros(len(above_XB), dtype=np.int64)
    longest_X, last_X = run_X.copy(), run_X.copy()
    for place in range(above_XB.shape[1]):
        run_X = np.where(above_XB[:, place], run_X + 1, 0)
        longer_X = run_X > longest_X
        longest_X = np.where(longer_X, run_X, longest_X)
        last_X = np.where(longer_X, place, last_X)
    exists_X = longest_X > 0
    first = np.where(exists_X, last_X - longest_X + 1.0, np.nan)
    return first, np.where(exists_X, last_X.astype(np.float64), np.nan)


def strengths(factors_XU: FloatArray, totals_UB: FloatArray, squares_UB: FloatArray) -> FloatArray:
    """Return Σx / √Σx² of units that are counted, or signed, by each row of factors, [X, B]; 0 where all x are 0."""
    size_XB = np.sqrt(np.abs(factors_XU) @ squares_UB)
    return factors_XU @ totals_UB / np.where(size_XB > 0, size_XB, 1.0)


class _NullOfRuns:
    """The strongest run under every assignment of signs where they are few, else under drawn ones."""

    def __init__(self, totals_UB: FloatArray, seed: int) -> None:
        units = len(totals_UB)
        self._is_drawn = 2**units > ASSIGNMENTS
        signs_XU = (
            np.random.default_rng([seed, 3]).choice((1.0, -1.0), size=(ASSIGNMENTS, units))
            if self._is_drawn
            else np.array(list(product((1.0, -1.0), repeat=units)))
        )
        # the strongest of all runs is a single place: a longer run is as strong as its weakest place
        self._strongest_X = np.sort(strengths(signs_XU, totals_UB, totals_UB**2).max(1))

    def p_values(self, strength: FloatArray) -> FloatArray:
        """Return the share of assignments with a run as strong as each of these."""
        strongest_X = self._strongest_X
        as_strong = len(strongest_X) - np.searchsorted(strongest_X, strength - _ROUNDING)
        # the signs that were measured are one of the assignments (Phipson and Smyth 2010)
        return (as_strong + self._is_drawn) / (len(strongest_X) + self._is_drawn)

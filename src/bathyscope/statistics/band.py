"""A band: the longest run of places at which one curve lies above another, and whether there is one at all.

That a curve lies above another somewhere is no finding where many places are looked at. Under the null hypothesis that
neither is better anywhere, a prompt's differences could as well have had the other sign, all of them together; the
heaviest run of mean differences that such signs give says how heavy a run must be. Source: Maris and Oostenveld 2007,
cluster-based permutation test. The ends' intervals come from a bootstrap over prompts.

Suffixes: P prompts, B places, X resamples or assignments of signs.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, bootstrap_interval, cluster_weights
from bathyscope.statistics.sampling import Sampling

ASSIGNMENTS = 9999
"""Signs are drawn so often where there are more ways to assign them."""


@dataclass(frozen=True)
class Band:
    """The longest run of places with a mean difference above 0.

    Args:
        first, last: its ends; NaN where no mean difference is above 0.
        p: of no difference anywhere; NaN with fewer than two prompts (clusters).
        first_interval, last_interval: of the ends.
    """

    first: float
    last: float
    p: float
    first_interval: Interval
    last_interval: Interval


def find_band(differences_PB: FloatArray, sampling: Sampling) -> Band:
    """Return the band of some prompts' differences; prompts or places without a value are left out.

    Args:
        differences_PB: above 0 where the curve in question is the better one.
        sampling: of the intervals; its clusters have signs in common.
    """
    has_value = ~np.isnan(differences_PB).all(1)
    sampling = sampling.take(has_value)
    cluster = sampling.cluster
    # places where nothing is measured can be in no run
    values_PB = np.nan_to_num(differences_PB[has_value], nan=-np.inf)
    nothing = Interval(math.nan, math.nan)
    if not len(values_PB):
        return Band(math.nan, math.nan, math.nan, nothing, nothing)
    first, last = (float(end[0]) for end in longest_run(values_PB.mean(0)[None] > 0))
    weights = cluster_weights(np.ones(len(values_PB)), cluster)
    if weights.size < 2:
        return Band(first, last, math.nan, nothing, nothing)
    p = _p_of_no_band(np.where(np.isinf(values_PB), 0.0, values_PB), cluster, sampling.seed)
    counts_XP = sampling.counts(len(values_PB))
    finite_B = np.isfinite(values_PB).all(0)
    means_XB = np.full((len(counts_XP), values_PB.shape[1]), -np.inf)
    means_XB[:, finite_B] = counts_XP @ values_PB[:, finite_B] / counts_XP.sum(1, keepdims=True)
    ends = longest_run(means_XB > 0)
    limits = (0.0, values_PB.shape[1] - 1.0)
    intervals = [
        # the longest run may be another one in a resample, so that ends lie in groups
        bootstrap_interval(end, resampled_X, weights, level=sampling.level, limits=limits, grouped=True)
        for end, resampled_X in zip((first, last), ends)
    ]
    return Band(first, last, p, *intervals)


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


def heaviest_run(values_XB: FloatArray) -> FloatArray:
    """Return the largest sum of a run of neighbouring values above 0 in each row, [X]; 0 without one."""
    run_X = np.zeros(len(values_XB))
    heaviest_X = run_X.copy()
    for value_X in values_XB.T:
        run_X = np.where(value_X > 0, run_X + value_X, 0.0)
        heaviest_X = np.maximum(heaviest_X, run_X)
    return heaviest_X


def _p_of_no_band(differences_PB: FloatArray, cluster: np.ndarray | None, seed: int) -> float:
    """Return the one-sided p-value of no difference: every assignment of signs where they are few, else drawn ones."""
    members = np.arange(len(differences_PB)) if cluster is None else np.unique(cluster, return_inverse=True)[1]
    units = int(members.max()) + 1
    totals_UB = np.zeros((units, differences_PB.shape[1]))
    np.add.at(totals_UB, members, differences_PB)
    weight = heaviest_run(totals_UB.sum(0)[None])[0]
    # rounding must not decide between assignments that give the same run
    bar = weight * (1 - 1e-12)
    if 2**units <= ASSIGNMENTS:
        signs_XU = np.array(list(product((1.0, -1.0), repeat=units)))
        return float((heaviest_run(signs_XU @ totals_UB) >= bar).mean())
    signs_XU = np.random.default_rng([seed, 3]).choice((1.0, -1.0), size=(ASSIGNMENTS, units))
    as_heavy = int((heaviest_run(signs_XU @ totals_UB) >= bar).sum())
    # the signs that were found are one of the assignments (Phipson and Smyth 2010)
    return (1 + as_heavy) / (1 + ASSIGNMENTS)

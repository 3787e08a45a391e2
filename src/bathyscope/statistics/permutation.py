"""Do two groups of prompts differ in an estimate? A permutation test of which prompt belongs to which.

The null hypothesis is that the groups are exchangeable: prompts could have been dealt into them in any way. The test
is exact for it whatever the estimator and whatever the prompts' weights, which stay with their prompts. Clusters are
dealt whole.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.reading import Reading

_CHUNK = 1 << 22
_ROUNDING = 1e-12


def permutation_p(first: Reading, second: Reading, *, permutations: int = 9999, seed: int = 0) -> float:
    """Two-sided p-value of no difference between one estimator on two groups of prompts.

    The statistic is the size of the difference. Where there are no more than ``permutations`` ways to deal the prompts
    into groups of these sizes, all of them are tried and it is the exact share; else it is (1 + those at least as far
    apart) / (1 + ``permutations``), as the given way is one of the possible ones (Phipson and Smyth 2010). A dealing
    in which a group has no estimate counts as one that is farther apart.

    Args:
        first, second: readings of the same estimator; prompts without a value are left out. Where they have clusters,
            no cluster has prompts in both.

    Returns:
        NaN where a group has fewer than two prompts (clusters) with a value, or no estimate.
    """
    groups = [reading.take(reading.has_value) for reading in (first, second)]
    # The permuted units are prompts, or whole clusters, numbered from 0 within each group.
    clusters = [
        np.arange(len(g.weights)) if g.cluster is None else np.unique(g.cluster, return_inverse=True)[1] for g in groups
    ]
    sizes = [int(members.max(initial=-1)) + 1 for members in clusters]
    if min(sizes) < 2 or any(math.isnan(float(group.estimate())) for group in groups):
        return math.nan
    pooled = Reading(
        np.concatenate([group.values for group in groups]),
        np.concatenate([group.weights for group in groups]),
        first.locate,
        cluster=np.concatenate([clusters[0], clusters[1] + sizes[0]]),
    )
    test = stats.permutation_test(
        np.split(np.arange(sum(sizes)), sizes[:1]),
        lambda first_units, second_units, axis=-1: _distance(pooled, first_units, second_units),
        permutation_type="independent",
        vectorized=True,
        n_resamples=permutations,
        batch=max(1, _CHUNK // pooled.values.size),
        alternative="greater",
        random_state=np.random.default_rng([seed, 2]),
        axis=-1,
    )
    # equal differences are equal up to the rounding of the estimates, which may be much larger than they
    tolerance = _ROUNDING * max(abs(float(group.estimate())) for group in groups)
    as_far = int((test.null_distribution >= test.statistic - tolerance).sum())
    ways = math.comb(sum(sizes), sizes[0])
    return as_far / ways if ways <= permutations else (1 + as_far) / (1 + permutations)


def share_clusters(first: Reading, second: Reading) -> bool:
    """Whether any cluster has prompts in both."""
    if first.cluster is None or second.cluster is None:
        return False
    return bool(np.intersect1d(first.cluster, second.cluster).size)


def _distance(pooled: Reading, first_units: NDArray[np.intp], second_units: NDArray[np.intp]) -> FloatArray:
    """Return how far apart the estimates of two groups are, ``[...]``, from their units' numbers ``[..., units]``."""
    first = pooled.estimate(_counts(first_units, pooled))
    second = pooled.estimate(_counts(second_units, pooled))
    return np.asarray(np.nan_to_num(np.abs(first - second), nan=np.inf))


def _counts(units: NDArray[np.intp], pooled: Reading) -> FloatArray:
    """Which prompts are in a group, ``[..., all prompts]``: 1 or 0, from its prompts' or clusters' numbers."""
    assert pooled.cluster is not None
    counts = np.zeros((*units.shape[:-1], int(pooled.cluster.max()) + 1))
    np.put_along_axis(counts, units, 1.0, axis=-1)
    return np.take(counts, pooled.cluster, axis=-1)

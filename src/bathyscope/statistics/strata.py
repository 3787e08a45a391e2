"""Prompts of several strata, such as domains of text, that count alike however many prompts each of them has.

Costs of candidates are combined over strata by their mean, or by the worst of them. Resampling stays inside strata, so
that none can be left out of a resample by chance.

Suffixes: X candidates, P prompts, R resamples, S strata.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.sampling import Sampling, resample_counts


@dataclass(frozen=True, eq=False)
class Strata:
    """Which stratum each prompt belongs to, and how strata are combined.

    Args:
        number_P: 0 … S − 1, each at least once.
        worst: the largest mean of a stratum counts; otherwise the mean of their means.
    """

    number_P: IntArray
    worst: bool = False

    @property
    def size(self) -> int:
        """S, the number of strata."""
        return int(self.number_P.max()) + 1

    def counts(self, sampling: Sampling) -> FloatArray:
        """Return how often each prompt is drawn, [resamples, prompts], each stratum resampled by itself."""
        counts_RP = np.zeros((sampling.resamples, len(self.number_P)))
        for stratum in range(self.size):
            members = self.number_P == stratum
            rng = np.random.default_rng([sampling.seed, stratum])
            cluster = None if sampling.cluster is None else sampling.cluster[members]
            counts_RP[:, members] = resample_counts(int(members.sum()), sampling.resamples, rng, cluster)
        return counts_RP

    def means(self, values_XP: FloatArray, counts_RP: FloatArray) -> FloatArray:
        """Return the combined mean of every candidate in every resample, [X, R]."""
        by_stratum_SXR = []
        for stratum in range(self.size):
            members = self.number_P == stratum
            weights_RP = counts_RP[:, members]
            by_stratum_SXR.append(values_XP[:, members] @ weights_RP.T / weights_RP.sum(1))
        return np.max(by_stratum_SXR, axis=0) if self.worst else np.mean(by_stratum_SXR, axis=0)

    def combine(self, values_XP: FloatArray) -> FloatArray:
        """Return the combined mean of every candidate over the prompts as they are, [X]."""
        return self.means(values_XP, np.ones((1, values_XP.shape[1])))[:, 0]

    def worst_stratum(self, values_XP: FloatArray) -> IntArray:
        """Return the stratum of the largest mean of every candidate, [X]; the first of equal ones."""
        return np.argmax([values_XP[:, self.number_P == s].mean(axis=1) for s in range(self.size)], axis=0)

    def weights(self, values_XP: FloatArray) -> FloatArray:
        """Return how much each prompt counts in the combined mean of every candidate, [X, P]; rows add up to 1."""
        share_P = 1 / np.bincount(self.number_P)[self.number_P]
        if not self.worst:
            return np.tile(share_P / self.size, (len(values_XP), 1))
        return np.where(self.number_P == self.worst_stratum(values_XP)[:, None], share_P, 0.0)


def cheapest_again(
    values_XP: FloatArray,
    sampling: Sampling,
    strata: Strata | None = None,
    *,
    rounding: float = 1e-12,
    cells: int = 20_000_000,
) -> FloatArray:
    """Return the share of resamples in which each candidate has the smallest mean, [X]; equal ones share a resample.

    Shares add up to 1. A candidate with a cost that is NaN is never the cheapest; where all are, so are the shares.

    Args:
        values_XP: costs of candidates by prompt.
        sampling: of the prompts.
        strata: of the prompts; None = all count alike.
        rounding: means that are no further apart are equal.
        cells: means that are in memory at a time.
    """
    strata = strata or Strata(np.zeros(values_XP.shape[1], dtype=np.int64))
    if np.isnan(values_XP).any(axis=1).all():
        return np.full(len(values_XP), np.nan)
    counts_RP = strata.counts(sampling)
    at_once = max(1, cells // len(values_XP))
    wins_X = np.zeros(len(values_XP))
    for first in range(0, len(counts_RP), at_once):
        means_XR = strata.means(values_XP, counts_RP[first : first + at_once])
        means_XR = np.where(np.isnan(means_XR), np.inf, means_XR)
        # an order among candidates of equal costs would be made of last bits, or of their numbers
        is_cheapest_XR = means_XR <= means_XR.min(axis=0) + rounding
        wins_X += (is_cheapest_XR / is_cheapest_XR.sum(axis=0)).sum(axis=1)
    return wins_X / len(counts_RP)

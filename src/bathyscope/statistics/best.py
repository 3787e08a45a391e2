"""Which of several candidates cannot be told from the best: all paired differences, with one bound on any error.

The best is chosen on the same prompts that judge it. So a difference from it counts only where it is larger than the
largest of *all* differences between two candidates would be by chance (single-step maximum statistic, family-wise
error at most 1 − level whichever candidate turns out best). Resampling is paired: one draw of prompts serves all.
Of few prompts there are few different draws, and these never lie far out however many candidates there are. So below
ten, the error is Student's, divided by the number of differences (Bonferroni).
Source: Westfall and Young 1993 (max statistic); Hsu 1996 (comparisons with the best).
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError
from bathyscope.statistics.bootstrap import bootstrap_interval, small_sample
from bathyscope.statistics.sampling import OF_DIFFERENCES, Sampling, cluster_weights, require_sampling
from bathyscope.statistics.strata import Strata

_ROUNDING = 1e-12
_FEWEST_DRAWN = 10
"""Prompts, or clusters, of which draws show how large the largest of many differences is by chance."""


@dataclass(frozen=True)
class Compared:
    """Candidates compared with the one with the smallest mean, arrays [candidates]."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    """Ends of each mean's own interval; NaN from a single prompt or cluster."""
    best: int
    """The candidate with the smallest mean, the first of equal ones."""
    p_value: FloatArray
    """Of no difference from the best, corrected for all pairs; 1 for the best, NaN from a single prompt."""
    indistinguishable: NDArray[np.bool_]
    """The difference from the best is within what chance does at the level; True where there is no p-value."""
    p_against_first: FloatArray
    """Of no difference from the first candidate, corrected alike; 1 for the first, NaN from a single prompt."""


def compared_with_best(
    values: ArrayLike, sampling: Sampling = OF_DIFFERENCES, strata: Strata | None = None
) -> Compared:
    """Means of candidates over the same prompts, and which cannot be told from the smallest.

    Args:
        values: [candidates, prompts], finite.
        sampling: of the prompts; its level is the coverage of each interval, and of all comparisons together, and no
            p-value is below 1 / (resamples + 1).
        strata: of the prompts, whose means are combined; None = all prompts count alike.

    Raises:
        OptionError: no candidate, no prompt, or no sampling.

    Example:
        >>> from bathyscope.extend.statistics import compared_with_best
        >>> found = compared_with_best([[0.1, 0.2, 0.1, 0.2], [0.9, 1.0, 0.8, 0.9], [0.2, 0.1, 0.2, 0.2]])
        >>> found.best, found.indistinguishable.tolist()
        (0, [True, False, True])
    """
    mean, resampled, weights = _resampled(values, sampling, strata)
    best = int(np.argmin(mean))
    none = np.full(len(mean), math.nan)
    if weights.size < 2:
        return Compared(mean, none, none, best, none, np.ones(len(mean), dtype=bool), none)
    intervals = [
        bootstrap_interval(float(estimate), row, weights, level=sampling.level, limits=(-math.inf, math.inf))
        for estimate, row in zip(mean, resampled)
    ]
    pairs = list(combinations(range(len(mean)), 2))
    p_of_pairs = np.ones((len(mean), len(mean)))
    if pairs:
        first, second = np.array(pairs).T
        apart = _Apart(mean[first] - mean[second], resampled[first] - resampled[second], weights)
        # All pairs share one bound on the error, though only those with the best and with the first are reported.
        p_of_pairs[first, second] = p_of_pairs[second, first] = apart.p_values()
    low, high = (np.array(ends) for ends in zip(*intervals))
    p_value = p_of_pairs[best]
    return Compared(mean, low, high, best, p_value, p_value >= 1 - sampling.level, p_of_pairs[0])


@dataclass(frozen=True)
class Simultaneous:
    """Several means with intervals that all hold at once, arrays [candidates]; NaN from a single prompt or cluster."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    """Of a mean of 0, corrected for their number."""


def simultaneous(values: ArrayLike, sampling: Sampling = OF_DIFFERENCES) -> Simultaneous:
    """Means of several differences over the same prompts, with one bound on any error among them.

    Args:
        values: [candidates, prompts], finite: what each prompt gains or loses.
        sampling: as in :func:`compared_with_best`.

    Raises:
        OptionError: no candidate or no prompt.
    """
    mean, resampled, weights = _resampled(values, sampling)
    if weights.size < 2:
        none = np.full(len(mean), math.nan)
        return Simultaneous(mean, none, none, none)
    apart = _Apart(mean, resampled, weights)
    reach = apart.reach(sampling.level)
    return Simultaneous(mean, mean - reach, mean + reach, apart.p_values())


def simultaneous_gains(gains: ArrayLike, sampling: Sampling = OF_DIFFERENCES) -> Simultaneous:
    """The same for differences of two shares on the same prompts.

    A prompt that gains and one that loses are added, each a cluster of its own, so that prompts that agree in
    everything are no proof that others would. Source: Bonett and Price 2012.

    Args:
        gains: [candidates, prompts], −1, 0 or 1.
        sampling: as in :func:`compared_with_best`.

    Raises:
        OptionError: as :func:`simultaneous`.
    """
    observed = np.asarray(gains, dtype=np.float64)
    # Two imaginary prompts, one gained and one lost, keep a positive width where all prompts agree.
    added = np.broadcast_to([1.0, -1.0], (len(observed), 2))
    if sampling.cluster is not None:
        clusters = np.append(sampling.cluster, sampling.cluster.max() + np.array([1, 2]))
        sampling = replace(sampling, cluster=clusters)
    result = simultaneous(np.hstack([observed, added]), sampling)
    return replace(result, low=result.low.clip(-1), high=result.high.clip(None, 1))


def _resampled(
    values: ArrayLike, sampling: Sampling, strata: Strata | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, those of each resample [candidates, resamples], and the weights of what is drawn."""
    require_sampling(sampling)
    observed = np.asarray(values, dtype=np.float64)
    if observed.ndim != 2 or 0 in observed.shape:
        raise OptionError(f"Values to compare are [candidates, prompts]; an array of shape {observed.shape} was given.")
    prompts = observed.shape[1]
    if strata is not None:
        means = strata.means(observed, strata.counts(sampling))
        return strata.combine(observed), means, cluster_weights(np.ones(prompts), sampling.cluster)
    counts = sampling.counts(prompts)
    resampled = observed @ counts.T / (prompts if sampling.cluster is None else counts.sum(axis=1))
    return observed.mean(axis=1), resampled, cluster_weights(np.ones(prompts), sampling.cluster)


class _Apart:
    """Differences with the largest that chance makes of any of them.

    Args:
        mean: [differences].
        resampled: their means in each resample, [differences, resamples].
        weights: of the prompts, or clusters, that are drawn.
    """

    def __init__(self, mean: FloatArray, resampled: FloatArray, weights: FloatArray) -> None:
        trusted = small_sample(weights)
        self._mean = mean
        self._resamples = resampled.shape[1]
        self._freedom = trusted.degrees_of_freedom
        error = resampled.std(axis=1, ddof=1) if self._resamples > 1 else np.zeros(len(mean))
        # resamples that agree but for rounding show no spread
        self._error = np.where(error > _ROUNDING * max(float(np.abs(mean).max()), _ROUNDING), error, 0.0)
        spread = self._error > 0
        moved = np.abs(resampled[spread] - mean[spread, None]) / self._error[spread, None]
        self._largest = moved.max(axis=0) if spread.any() else np.zeros(self._resamples)
        self._shared_by = int(spread.sum()) if weights.size < _FEWEST_DRAWN else 0
        """Differences that share the error evenly; 0 = draws show the largest of them."""
        self._shrinkage = math.sqrt(trusted.shrinkage)

    def reach(self, level: float) -> FloatArray:
        """How far the intervals reach on either side of the means."""
        # few prompts know their own spread badly: Student's tail instead of the normal one
        tail = stats.norm.sf(float(np.quantile(self._largest, level)))
        if self._shared_by:
            tail = (1 - level) / 2 / self._shared_by
        return self._error / self._shrinkage * float(stats.t.isf(tail, self._freedom))

    def p_values(self) -> FloatArray:
        """Share of the resamples whose largest standardised difference reaches each of the observed ones.

        Of few prompts Student's p times the number of differences.
        """
        p_values = np.ones(len(self._mean))
        for place, (mean, error) in enumerate(zip(np.abs(self._mean), self._error)):
            if error > 0:
                tail = stats.t.sf(mean * self._shrinkage / error, self._freedom)
                exceeding_share = float((self._largest >= stats.norm.isf(tail)).mean())
                p_values[place] = min(1.0, 2 * self._shared_by * tail) if self._shared_by else exceeding_share
            elif mean > _ROUNDING * max(float(np.abs(self._mean).max()), _ROUNDING):
                p_values[place] = 0.0
        return np.maximum(p_values, 1 / (self._resamples + 1))

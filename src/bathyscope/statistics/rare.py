"""Intervals of means that a few prompts carry, such as the cost of a block that one answer in twenty needs.

Where prompts are few, draws of them often hold none that is expensive: all agree that the cost is small, Student's
interval is narrow, and the truth lies above it. docs/design/intervals.md has how often, and what these intervals do.

Suffixes: P prompts, X blocks, or whatever else has a cost.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, mean_intervals
from bathyscope.statistics.sampling import Sampling, cluster_weights

FEWEST_PROMPTS: Final = 24
"""With fewer prompts, or clusters, a rare cost is missed too often to rule it out."""
FEWEST_OF_SHAPE: Final = 4
"""With fewer prompts, or clusters, nothing tells whether a few of them carry a cost."""
ENOUGH_OF_FEW: Final = 40
"""From so many prompts, or clusters, on, outward intervals hold of costs that few of them carry."""
_FARTHER: Final = 3.0
"""Distance of the prompt that was not drawn from the mean, over the largest distance of one that was."""
_FAR: Final = 12.0
"""Median distances from the median where a prompt is one of a few that carry a mean; of normal values none is."""
_AGREE: Final = 1e-6
"""Nats within which the costs of all prompts agree, whatever rounding makes of them."""
_OWN_SHAPE: Final = 8
"""With fewer prompts a cost's own values tell too little, and one that few prompts carry speaks for all."""


def carried_by_few(values_PX: ArrayLike) -> NDArray[np.bool_]:
    """Return of which means a few prompts may make up the most, [X], going by how far out the farthest prompt is.

    A cost is so where its farthest prompt is more than twelve times as far from the median as half of the prompts are.
    Few prompts may hold none of those that are expensive, so a cost is also taken to be so where the other costs of the
    same prompts are: below eight prompts any of them, from eight on most of them, and any where it is the same in all.

    Args:
        values_PX: [prompts, X]; NaN where a prompt has no value.

    Example:
        >>> from bathyscope.statistics.rare import carried_by_few
        >>> even = np.arange(10.0)
        >>> carried_by_few(np.stack([even, even, np.where(even == 9, 90.0, even)], axis=1)).tolist()
        [False, False, True]
    """
    values = np.asarray(values_PX, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without a value
        distance_PX = np.abs(values - np.nanmedian(values, axis=0))
        farthest_X = np.nanmax(distance_PX, axis=0, initial=-math.inf)
        usual_X = np.nanmedian(distance_PX, axis=0)
    tells_X = farthest_X > _AGREE
    few_X = tells_X & (farthest_X > _FAR * usual_X)
    is_few = few_X.any() if len(values) < _OWN_SHAPE else few_X.sum() > tells_X.sum() / 2
    return np.asarray(few_X | is_few | (~tells_X & few_X.any()))


def bounded_intervals(
    intervals: Sequence[Interval], few_X: NDArray[np.bool_], values_PX: ArrayLike, sampling: Sampling
) -> list[Interval]:
    """Return intervals of costs without those that do not hold.

    A cost that few prompts carry has an outward interval from :data:`ENOUGH_OF_FEW` prompts, or clusters, on, and none
    with fewer. Below :data:`FEWEST_OF_SHAPE` no cost has one.

    Args:
        intervals: of the costs, [X], as :func:`~bathyscope.statistics.bootstrap.mean_intervals` returns them.
        few_X: of which of them :func:`carried_by_few`.
        values_PX: [prompts, X]; NaN where a prompt has no value.
        sampling: of the prompts.
    """
    values = np.asarray(values_PX, dtype=np.float64)
    count = n_draws(values, sampling)
    open_X = few_X if count >= FEWEST_OF_SHAPE else np.ones_like(few_X)
    if count < ENOUGH_OF_FEW or not few_X.any():
        none = Interval(math.nan, math.nan)
        return [none if is_open else ends for ends, is_open in zip(intervals, open_X, strict=True)]
    bounded = list(intervals)
    for place, ends in zip(np.flatnonzero(few_X), outward_mean_intervals(values[:, few_X], sampling), strict=True):
        bounded[place] = ends
    return bounded


def n_draws(values_PX: FloatArray, sampling: Sampling) -> int:
    """Return how many prompts, or clusters, with a value resampling draws from."""
    has_value = ~np.isnan(values_PX).all(axis=1)
    return cluster_weights(np.ones(int(has_value.sum())), sampling.take(has_value).cluster).size


def outward_mean_intervals(values_PX: ArrayLike, sampling: Sampling) -> list[Interval]:
    """Return the intervals of means, moved outwards to where one prompt more might take them.

    Each end is also that of the interval with one prompt more, three times as far from the mean as the farthest that
    there is. Where all prompts read alike it changes nothing, which is why :data:`FEWEST_PROMPTS` are needed.

    Args:
        values_PX: [prompts, X]; NaN where a prompt has no value.
        sampling: of the prompts.

    Example:
        >>> from bathyscope.statistics.bootstrap import mean_intervals
        >>> from bathyscope.statistics.rare import outward_mean_intervals
        >>> from bathyscope.statistics.sampling import Sampling
        >>> costs = np.append(np.zeros((23, 1)), [[1.0]], axis=0)
        >>> mean_intervals(costs, Sampling())[0].high < outward_mean_intervals(costs, Sampling())[0].high
        True
    """
    values = np.asarray(values_PX, dtype=np.float64)
    has_value = ~np.isnan(values).all(axis=0)
    mean_X = np.full(values.shape[1], np.nan)
    farthest_X = mean_X.copy()
    mean_X[has_value] = np.nanmean(values[:, has_value], axis=0)
    farthest_X[has_value] = np.nanmax(np.abs(values[:, has_value] - mean_X[has_value]), axis=0)
    plain = mean_intervals(values, sampling)
    below = _with_one_more(values, mean_X - _FARTHER * farthest_X, sampling)
    above = _with_one_more(values, mean_X + _FARTHER * farthest_X, sampling)
    # fmin and fmax: an end that there is counts where the other is NaN
    return [
        Interval(float(np.fmin(ends.low, low.low)), float(np.fmax(ends.high, high.high)))
        for ends, low, high in zip(plain, below, above)
    ]


def _with_one_more(values_PX: FloatArray, prompt_X: FloatArray, sampling: Sampling) -> list[Interval]:
    """Return the intervals of means with one prompt more, which is a draw of its own."""
    cluster = sampling.cluster
    more = None if cluster is None else np.append(cluster, cluster.max() + 1)
    return mean_intervals(np.vstack([values_PX, prompt_X]), replace(sampling, cluster=more))

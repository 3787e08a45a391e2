"""Intervals of means that a few prompts carry, such as the cost of a block that one answer in twenty needs.

Where prompts are few, draws of them often hold none that is expensive: all agree that the cost is small, Student's
interval is narrow, and the truth lies above it. docs/design/intervals.md has how often, and what these intervals do.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import Interval, mean_intervals
from bathyscope.statistics.sampling import Sampling

FEWEST_PROMPTS: Final = 24
"""With fewer prompts, or clusters, a rare cost is missed too often to rule it out."""
_FARTHER: Final = 3.0
"""Distance of the prompt that was not drawn from the mean, over the largest distance of one that was."""


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

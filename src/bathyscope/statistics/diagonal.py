"""Does the best partner of a boundary sit at the same relative depth in the other model?

For errors [boundary, boundary of the other model], every boundary at relative depth x = b/L has a best partner, that
with the smallest error, at relative depth y. Three numbers say how y goes with x: the least-squares slope (1 where the
other model's depth is the same work spread out or drawn together, 0 where x does not matter), the mean of |y − x|,
and Spearman's correlation.

Suffixes: A boundaries, B boundaries of the other model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
ROUNDING = 2.0**-24
"""Relative errors that differ by no more are equal: streams in float32 are rounded by as much."""
NONE = -1
"""The partner of a boundary whose errors are all NaN."""


@dataclass(frozen=True)
class Alignment:
    """How best partners go with relative depth; every array has the leading dims of the errors.

    Args:
        best: the partners, [..., A]; −1 where a boundary has none.
        slope: of the partner's relative depth over one's own; NaN, as the two below, where a boundary has none.
        deviation: mean |y − x|, 0 … 1.
        rank_correlation: Spearman's; NaN where all have the same partner.
    """

    best: NDArray[np.int64]
    slope: Array
    deviation: Array
    rank_correlation: Array


def alignment(errors_AB: Array) -> Alignment:
    """The alignment of ``errors`` [..., A, B]; of those equal up to rounding the first counts, NaN never."""
    missing_AB = np.isnan(errors_AB)
    known_AB = np.where(missing_AB, np.inf, errors_AB)
    is_smallest_AB = known_AB <= known_AB.min(-1, keepdims=True) + ROUNDING
    best_A = np.where(missing_AB.all(-1), NONE, np.argmax(is_smallest_AB, axis=-1))
    own_A, other_B = relative_depths(errors_AB.shape[-2]), relative_depths(errors_AB.shape[-1])
    partner_A = np.where(best_A == NONE, np.nan, other_B[best_A])
    centred_A = own_A - own_A.mean()
    slope = partner_A @ centred_A / (centred_A @ centred_A)
    ranks_A = stats.rankdata(partner_A, axis=-1)
    ranks_A = ranks_A - ranks_A.mean(-1, keepdims=True)
    own_ranks_A = np.arange(len(own_A)) - (len(own_A) - 1) / 2
    size = np.sqrt((ranks_A**2).sum(-1) * (own_ranks_A**2).sum())
    rank = np.divide(ranks_A @ own_ranks_A, size, out=np.full(size.shape, np.nan), where=size > 0)
    return Alignment(best_A, slope, np.abs(partner_A - own_A).mean(-1), rank)


def deviation_by_chance(boundaries: int, others: int) -> float:
    """The expected deviation where every boundary of the other model is the best with the same chance."""
    return float(np.abs(relative_depths(boundaries)[:, None] - relative_depths(others)).mean())


def deviation_of_one_partner(boundaries: int, others: int) -> float:
    """The smallest deviation there can be where all boundaries have the same partner."""
    return float(np.abs(relative_depths(boundaries)[:, None] - relative_depths(others)).mean(0).min())


def relative_depths(boundaries: int) -> Array:
    """b/L of boundaries 0 … L."""
    return np.arange(boundaries) / (boundaries - 1)

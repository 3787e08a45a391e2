"""Do prediction neurons stand where the lens nears the final prediction? Source: lad2024, Section 4.3.

Suffixes: P prompts, B boundaries, L blocks.
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bathyscope.arrays import FloatArray, IntArray
from bathyscope.errors import OptionError
from bathyscope.statistics.difference import Contrast, Reading, Term, contrast


def fall(kl_B: ArrayLike) -> FloatArray:
    """By how much each block lowers the KL, [..., B] → [..., L]; below 0 where it rises."""
    return -np.diff(np.asarray(kl_B, dtype=np.float64), axis=-1)


def prediction_fall(
    kl_PB: ArrayLike, fraction_L: ArrayLike, weights_P: ArrayLike, cluster_P: IntArray | None = None
) -> Contrast:
    """Rank correlation (Spearman's ρ) over blocks of the share of prediction neurons with the fall of the mean KL.

    The interval resamples prompts. Blocks of one model are no sample, and neighbours are alike, so that there is no
    test of ρ = 0 over blocks; NaN where all shares or all falls are the same.

    Args:
        kl_PB: KL of the lens to the final prediction, for each prompt and boundary.
        fraction_L: share of the block's neurons that are prediction neurons.
        weights_P: tokens of each prompt.
        cluster_P: prompts of one number are resampled as one; None = each for itself.

    Raises:
        OptionError: the number of boundaries is not the number of blocks + 1.
    """
    values, fraction = np.asarray(kl_PB, dtype=np.float64), np.asarray(fraction_L, dtype=np.float64)
    if values.shape[-1] != len(fraction) + 1:
        raise OptionError(f"{values.shape[-1]} boundaries and {len(fraction)} blocks are not those of one model.")
    reading = Reading(values, np.asarray(weights_P), partial(_rho, fraction_L=fraction), (-1.0, 1.0), cluster=cluster_P)
    return contrast([[Term(reading, 1.0)]])


def _rho(mean_B: FloatArray, fraction_L: FloatArray) -> FloatArray:
    falls = stats.rankdata(fall(mean_B), axis=-1)
    shares = stats.rankdata(fraction_L)
    falls, shares = falls - falls.mean(axis=-1, keepdims=True), shares - shares.mean()
    size = np.sqrt((falls**2).sum(axis=-1) * (shares**2).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((falls * shares).sum(axis=-1) / size)

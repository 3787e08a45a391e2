"""Is exchanging two blocks milder than leaving one out? Both on the same prompts. Source: lad2024, layer interventions.

Suffixes: P prompts, X places (blocks dropped, pairs swapped).
"""

from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.arrays import FloatArray, IntArray
from bathyscope.statistics.difference import Contrast, Reading, Term, contrast, paired_difference

Over = Literal["mean", "median"]


class DropAndSwap(NamedTuple):
    """What each does on average over its places, and swap − drop, paired by prompt."""

    drop: Contrast
    swap: Contrast
    difference: Contrast


def drop_and_swap(
    drop_PX: ArrayLike,
    swap_PX: ArrayLike,
    weights_P: ArrayLike,
    over: Over = "mean",
    cluster_P: IntArray | None = None,
) -> DropAndSwap:
    """The mean or median over places of the prompts' mean curves, with bootstrap intervals over prompts.

    Args:
        drop_PX: a quantity of each prompt with each block dropped.
        swap_PX: the same with each pair of neighbours swapped.
        weights_P: tokens of each prompt.
        over: how places are reduced; the median where few places (the first block) outweigh all others.
        cluster_P: prompts of one number are resampled as one; None = each for itself.
    """
    locate = partial(_reduced, over=over)
    readings = [
        Reading(np.asarray(one, dtype=np.float64), np.asarray(weights_P), locate, cluster=cluster_P)
        for one in (drop_PX, swap_PX)
    ]
    drop, swap = (contrast([[Term(one, 1.0)]]) for one in readings)
    return DropAndSwap(drop, swap, paired_difference(*readings))


def _reduced(mean_X: FloatArray, over: Over) -> FloatArray:
    return np.asarray((np.mean if over == "mean" else np.median)(mean_X, axis=-1))

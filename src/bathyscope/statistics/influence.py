"""Influence of blocks on one another: skip effects E reduced to one number per block, given and received.

Source: csordas2025, layer skipping.
"""

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray


def influence_received(effect: ArrayLike) -> FloatArray:
    """Mean of each block's column of E over the blocks before it: how much it depends on them.

    Only cells with skipped < block are averaged. The others are fixed by the definition of a skip (0 for
    blocks before the skipped one, 1 or 0 for that block itself) and would make a block's mean depend on where
    it stands.

    Args:
        effect: E, ``[..., L, L]`` (skipped × block), relative changes of block contributions; NaN = not measured.

    Returns:
        ``[..., L]``; NaN where no cell has a value: always at block 0, which has no block before it.
    """
    return _mean_of_later(effect, axis=-2)


def influence_given(effect: ArrayLike) -> FloatArray:
    """Mean of each skipped block's row of E over the blocks after it: how much they depend on it.

    Cells and parameters as in :func:`influence_received`; returns ``[..., L]``, NaN at the last block,
    which has no block after it. Elsewhere it is the layer effect of the depth score, if E is 0 up to the
    skipped block.
    """
    return _mean_of_later(effect, axis=-1)


def _mean_of_later(effect: ArrayLike, axis: int) -> FloatArray:
    values = np.asarray(effect, dtype=np.float64)
    later = np.triu(np.ones(values.shape[-2:], dtype=bool), 1)
    return np.asarray(np.ma.array(values, mask=~later | np.isnan(values)).mean(axis=axis).filled(np.nan))

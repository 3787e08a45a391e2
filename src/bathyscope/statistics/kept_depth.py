"""From which boundary on a share of tokens keeps its final prediction: a quantile of the depths of tokens.

Each prompt gives the share of its tokens that have, and keep, their final prediction at every boundary; prompts are
pooled by their tokens. The quantile q is the place where the pooled share, drawn as straight lines between boundaries,
first reaches q.
"""

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.reading import Reading

_ROUNDING: Final = 1e-9
"""Of a share of tokens: one half of them, averaged over prompts of odd lengths, may be written 0.49999999999."""


def kept_from(share: ArrayLike, quantile: float) -> FloatArray:
    """Blocks done where a share ``[..., L + 1]`` by boundary first reaches ``quantile``, [...]: 0 … L.

    Between two boundaries by proportion; 0 where the share has it at boundary 0; NaN where it is nowhere reached, or a
    share is not known.
    """
    values = np.asarray(share, dtype=np.float64)
    reached = values >= quantile - _ROUNDING
    upper = np.argmax(reached, axis=-1)
    lower = np.maximum(upper - 1, 0)
    share_there = np.take_along_axis(values, upper[..., None], -1)[..., 0]
    share_before = np.take_along_axis(values, lower[..., None], -1)[..., 0]
    rise = np.where(share_there > share_before, share_there - share_before, 1.0)
    place = upper - np.where(upper > 0, np.clip((share_there - quantile) / rise, 0, 1), 0)
    exists = reached.any(-1) & ~np.isnan(values).any(-1)
    return np.asarray(np.where(exists, place, np.nan), dtype=np.float64)


def kept_reading(share_PB: ArrayLike, tokens_P: ArrayLike, quantile: float, cluster: IntArray | None = None) -> Reading:
    """The reading of :func:`kept_from` of all tokens of all prompts.

    Args:
        share_PB: [P, L + 1], NaN throughout for a prompt without a value.
        tokens_P: [P], tokens that each prompt's shares are means over.
        cluster: [P], prompts of one number are resampled as one.
    """
    shares = np.asarray(share_PB, dtype=np.float64)
    tokens = np.asarray(tokens_P, dtype=np.float64)
    # A prompt without a value is left out, and its weight is never looked at: it has no tokens.
    weights = np.where(np.isnan(shares).all(-1), 1.0, tokens)
    locate = partial(kept_from, quantile=quantile)
    return Reading(shares, weights, locate, (0.0, shares.shape[-1] - 1.0), cluster=cluster)

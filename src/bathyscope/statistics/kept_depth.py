"""From which boundary on a share of tokens keeps its final prediction: a quantile of the depths of tokens.

Each prompt gives the share of its tokens that have, and keep, their final prediction at every boundary; prompts are
pooled by their tokens. The quantile q is the place where the pooled share, drawn as straight lines between boundaries,
first reaches q.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.bootstrap import Interval
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import cluster_weights
from bathyscope.statistics.shares import clustered_share

_ROUNDING: Final = 1e-9
"""Of a share of tokens: one half of them, averaged over prompts of odd lengths, may be written 0.49999999999."""


def kept_from(share: ArrayLike, quantile: float, boundaries: Sequence[int] | None = None) -> FloatArray:
    """Blocks done where a share ``[..., L + 1]`` by boundary first reaches ``quantile``, [...]: 0 … L.

    Between two boundaries by proportion; the first boundary where the share has it there already; NaN where it is
    nowhere reached, or a share is not known.

    Args:
        boundaries: that shares are known at; None = 0 … L. Where some lie between two of them, the share may have risen
            at any, and the place is the second.
    """
    values = np.asarray(share, dtype=np.float64)
    reached = values >= quantile - _ROUNDING
    upper = np.argmax(reached, axis=-1)
    lower = np.maximum(upper - 1, 0)
    share_there = np.take_along_axis(values, upper[..., None], -1)[..., 0]
    share_before = np.take_along_axis(values, lower[..., None], -1)[..., 0]
    address = np.arange(values.shape[-1]) if boundaries is None else np.asarray(boundaries)
    rise = np.where(share_there > share_before, share_there - share_before, 1.0)
    back = np.where(upper > 0, np.clip((share_there - quantile) / rise, 0, 1), 0)
    place = address[upper] - np.where(address[upper] - address[lower] > 1, 0, back)
    exists = reached.any(-1) & ~np.isnan(values).any(-1)
    return np.asarray(np.where(exists, place, np.nan), dtype=np.float64)


def kept_reading(
    share_PB: ArrayLike,
    tokens_P: ArrayLike,
    quantile: float,
    cluster: IntArray | None = None,
    boundaries: Sequence[int] | None = None,
) -> Reading:
    """The reading of :func:`kept_from` of all tokens of all prompts.

    Args:
        share_PB: [P, L + 1], NaN throughout for a prompt without a value.
        tokens_P: [P], tokens that each prompt's shares are means over.
        cluster: [P], prompts of one number are resampled as one.
        boundaries: that shares are known at; None = 0 … L.
    """
    shares = np.asarray(share_PB, dtype=np.float64)
    tokens = np.asarray(tokens_P, dtype=np.float64)
    # A prompt without a value is left out, and its weight is never looked at: it has no tokens.
    weights = np.where(np.isnan(shares).all(-1), 1.0, tokens)
    locate = partial(kept_from, quantile=quantile, boundaries=boundaries)
    last = shares.shape[-1] - 1.0 if boundaries is None else float(boundaries[-1])
    return Reading(shares, weights, locate, (0.0, last), cluster=cluster)


def interval_by_shares(reading: Reading, level: float) -> Interval:
    """Interval of a :func:`kept_reading` from those of the pooled share at every boundary; NaN below two clusters.

    Its ends are where the upper, and the lower, ends of the shares' intervals reach the quantile. Unlike what two or
    three resampled prompts show, it always has the width that the number of tokens leaves open. The share at the last
    boundary, where every token has its final prediction, is known. Source: Woodruff 1952 (quantiles by inversion).

    Args:
        reading: of prompts that all have a value.
    """
    tokens_C = cluster_weights(reading.weights, reading.cluster)
    # a cluster counts as one of its prompts, since the others may be copies of it
    tokens_P = reading.weights * (tokens_C.size / len(reading.weights))
    tokens_C = cluster_weights(tokens_P, reading.cluster)
    kept_PB = reading.values * tokens_P[:, None]
    kept_CB = np.stack([cluster_weights(kept_P, reading.cluster) for kept_P in kept_PB.T], axis=-1)
    ends_B2 = np.array([clustered_share(kept_C, tokens_C, level)[1] for kept_C in kept_CB.T])
    ends_B2[-1] = kept_CB[:, -1].sum() / tokens_C.sum()
    # the share only rises along the depth, and so do its bounds
    lower_B = np.minimum.accumulate(ends_B2[::-1, 0])[::-1]
    upper_B = np.maximum.accumulate(ends_B2[:, 1])
    return Interval(float(reading.locate(upper_B)), float(reading.locate(lower_B)))

"""Sharp or gradual? How few blocks a curve takes for most of its way, against a straight line, with interval and test.

The *width* of a curve is the distance between the places at which it has gone a tenth and nine tenths of its way from
its first entry to its last. A straight line over n steps has the width 0.8 n. *Sharpness* is 1 − width / (0.8 n): 1 for
a single step, 0 for a straight line, below 0 where the curve moves at both ends and rests between (to −0.25).

A curve that should rise or fall throughout (a lens's overlap or KL by boundary) is taken by its nearest monotone one.
Effects of single blocks are first summed up (:func:`summed`), so that the way is the share of the effect that is done.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.difference import Contrast, Term, contrast
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.smoothing import falling_fit, rising_fit

ENDS: Final = (0.1, 0.9)
"""Shares of the way between which a curve's width lies."""
_LEAST: Final = 1 - 1 / (ENDS[1] - ENDS[0])
_ROUNDING: Final = 1e-12


def width(curve: ArrayLike) -> FloatArray:
    """Return the steps that curves ``[..., n + 1]`` take from a tenth to nine tenths of their way, as ``[...]``.

    The way leads from the first entry to the last, up or down, by the nearest monotone curve. NaN where a curve is not
    finite throughout or goes nowhere.
    """
    values = np.asarray(curve, dtype=np.float64)
    found = np.full(values.shape[:-1], np.nan)
    for place in np.ndindex(values.shape[:-1]):
        own = values[place]
        if not np.isfinite(own).all():
            continue
        fit = (rising_fit if own[-1] >= own[0] else falling_fit)(own)
        way = fit[-1] - fit[0]
        if abs(way) > _ROUNDING * np.abs(own).max(initial=0.0):
            first, last = (_reached((fit - fit[0]) / way, share) for share in ENDS)
            found[place] = last - first
    return found


def sharpness_of(curve: ArrayLike) -> FloatArray:
    """1 − width / (0.8 n) of curves ``[..., n + 1]``: ``[...]``."""
    values = np.asarray(curve, dtype=np.float64)
    return np.asarray(1 - width(values) / ((ENDS[1] - ENDS[0]) * (values.shape[-1] - 1)))


def sharpness(
    curves: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    cluster: ArrayLike | None = None,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Contrast:
    """Sharpness of the prompts' mean curve, with its interval; ``p_value`` is that of a straight line, sharpness 0.

    A low p-value with an estimate above 0 says sharp, below 0 the contrary; a high one that the prompts do not tell.

    Args:
        curves: ``[prompts, n + 1]``; a prompt that is NaN throughout is left out.
        weights: ``[prompts]``, positive: token counts; None = each prompt the same.
        cluster: ``[prompts]``, prompts of one number are resampled as one; None = each for itself.
        resamples, level, seed: as for :func:`bathyscope.statistics.difference.contrast`.

    Raises:
        OptionError: weights that do not fit, or an option out of its range.
    """
    values = np.asarray(curves, dtype=np.float64)
    own = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    together = None if cluster is None else np.unique(cluster, return_inverse=True)[1]
    reading = Reading(values, own, sharpness_of, (_LEAST, 1.0), cluster=together)
    return contrast([[Term(reading, 1.0)]], resamples=resamples, level=level, seed=seed)


def summed(effects: ArrayLike) -> FloatArray:
    """Effects of n blocks ``[..., n]`` as what is done before each boundary, ``[..., n + 1]``, from 0."""
    values = np.asarray(effects, dtype=np.float64)
    start = np.where(np.isnan(values[..., :1]), np.nan, 0.0)
    return np.concatenate([start, np.cumsum(values, axis=-1)], axis=-1)


def _reached(way: FloatArray, share: float) -> float:
    """The place at which a rising way 0 … 1 first has this share."""
    after = int(np.argmax(way >= share))
    before = way[after - 1]
    return after - 1 + float((share - before) / (way[after] - before))

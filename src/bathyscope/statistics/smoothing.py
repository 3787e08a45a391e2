"""Smoothed depth curves: isotonic fits of curves that should only fall or rise, LOESS for the others.

All take one curve ``[L]`` or a batch ``[..., L]`` and return the same shape; a curve that is not finite
throughout gives NaN throughout.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from statsmodels.nonparametric.smoothers_lowess import lowess

from bathyscope.core.arrays import FloatArray

LOESS_SHARE: Final = 1 / 4
"""Share of a curve's entries that each local line is fitted to."""
LOESS_ENTRIES: Final = 5
"""The fewest entries that each local line is fitted to; all of them where there are fewer."""


def falling_fit(curve: ArrayLike) -> FloatArray:
    """The nearest curve, in least squares, that never rises: for KL, which later blocks should only lower.

    A first entry above all others stays as it is, since it does not rise.
    """
    return _isotonic(curve, increasing=False)


def rising_fit(curve: ArrayLike) -> FloatArray:
    """The nearest curve, in least squares, that never falls: for top-k overlap."""
    return _isotonic(curve, increasing=True)


def loess_fit(curve: ArrayLike) -> FloatArray:
    """Local lines through the nearest quarter of the entries (at least five), with tricube weights.

    For cosines, which may turn more than once. Straight lines stay as they are, and so do curves of at most
    three entries. LOESS without its robust repetitions is linear in the curve, so that all curves of one
    length share one matrix: a thousand resamples are one matrix product.
    """
    values = np.asarray(curve, dtype=np.float64)
    whole = np.isfinite(values).all(axis=-1, keepdims=True)
    return np.where(whole, np.where(whole, values, 0.0) @ _loess_matrix(values.shape[-1]).T, np.nan)


def _isotonic(curve: ArrayLike, increasing: bool) -> FloatArray:
    values = np.asarray(curve, dtype=np.float64)
    fit = np.full(values.shape, np.nan)
    for index in np.ndindex(values.shape[:-1]):
        if np.isfinite(values[index]).all():
            fit[index] = isotonic_regression(values[index], increasing=increasing).x
    return fit


@lru_cache(maxsize=16)
def _loess_matrix(entries: int) -> FloatArray:
    """``[entries, entries]``: row i gives the smoothed entry i as weights of all entries."""
    if entries <= 3:
        # the tricube weight vanishes at the farthest neighbour: no local line has a third entry to pass by
        return np.eye(entries)
    place = np.arange(entries, dtype=np.float64)
    share = min(1.0, max(LOESS_SHARE, LOESS_ENTRIES / entries))
    columns = [lowess(unit, place, frac=share, it=0, is_sorted=True, return_sorted=False) for unit in np.eye(entries)]
    return np.stack(columns, axis=1)

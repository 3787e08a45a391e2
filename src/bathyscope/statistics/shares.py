"""Shares of prompts and what they differ by, with intervals that are not of no width where all prompts agree."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from bathyscope.arrays import FloatArray
from bathyscope.errors import OptionError
from bathyscope.statistics.bootstrap import Interval


def share_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Wilson's interval of the share of ones among ``values`` [prompts], each 0 or 1.

    Raises:
        OptionError: no values, or others.
    """
    given = _shares(values)
    low, high = proportion_confint(given.sum(), given.size, 1 - level, "wilson")
    return Interval(float(low), float(high))


def share_difference_interval(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Interval:
    """Interval of the share of ones in ``first`` minus that in ``second``, of the same prompts.

    Half a prompt is added to each of the four ways in which a prompt may come out (Agresti and Min 2005), so that
    prompts that agree in everything are no proof that others would.

    Raises:
        OptionError: no values, values other than 0 and 1, or of different numbers of prompts.
    """
    one, other = _shares(first), _shares(second)
    if one.size != other.size:
        raise OptionError(f"Shares of the same prompts are compared; {one.size} and {other.size} values were given.")
    count = one.size + 2
    only_first, only_second = (one > other).sum() + 0.5, (other > one).sum() + 0.5
    gap = (only_first - only_second) / count
    error = math.sqrt(only_first + only_second - count * gap**2) / count
    reach = float(stats.norm.isf((1 - level) / 2)) * error
    return Interval(max(-1.0, gap - reach), min(1.0, gap + reach))


def are_shares(values: ArrayLike) -> bool:
    """Whether all are 0 or 1."""
    given = np.asarray(values, dtype=np.float64)
    return bool(given.size and np.isin(given, (0.0, 1.0)).all())


def _shares(values: ArrayLike) -> FloatArray:
    given = np.asarray(values, dtype=np.float64).ravel()
    if not are_shares(given):
        raise OptionError("A share is of values that are 0 or 1, of one prompt and more.")
    return given

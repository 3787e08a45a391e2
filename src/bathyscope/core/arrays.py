"""Types of arrays of numbers, and arrays of what many results say."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]


def collect(results: Sequence[Any], field: str) -> NDArray[Any]:
    """Return one attribute of nested lists of results as an array of their shape: numbers, or texts as objects."""
    values = np.frompyfunc(attrgetter(field), 1, 1)(np.array(results, dtype=object))
    return values if any(isinstance(value, str) for value in values.flat) else values.astype(np.float64)


def mean_of_known(values: FloatArray, axis: int) -> FloatArray:
    """Return the means along an axis over the values that are numbers; NaN where none is.

    Example:
        >>> mean_of_known(np.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
        array([ 2., nan])
    """
    is_known = ~np.isnan(values)
    total = np.where(is_known, values, 0.0).sum(axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / is_known.sum(axis))

"""P-values of many tests at once."""

import numpy as np
from numpy.typing import ArrayLike
from statsmodels.stats.multitest import multipletests

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError
from bathyscope.statistics.inputs import as_numbers


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values of any shape corrected for the number of tests (Holm); NaN stays NaN and is not counted.

    Args:
        p_values: of all tests that are made together.

    Raises:
        OptionError: values that are no numbers from 0 to 1 or NaN.

    Example:
        >>> from bathyscope.extend.statistics import holm
        >>> holm(np.array([0.01, 0.04, np.nan])).tolist()
        [0.02, 0.04, nan]
    """
    values = as_numbers(p_values, "p_values", "those of all tests")
    tested = ~np.isnan(values)
    outside = values[tested & ~((values >= 0) & (values <= 1))]
    if outside.size:
        raise OptionError(f"A p-value of {outside[0]:g} is out of range; allowed: 0 to 1, or NaN for a test not made.")
    corrected = np.full(values.shape, np.nan)
    if tested.any():
        corrected[tested] = multipletests(values[tested], method="holm")[1]
    return corrected

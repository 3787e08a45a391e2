"""P-values of many tests at once."""

import numpy as np
from statsmodels.stats.multitest import multipletests

from bathyscope.core.arrays import FloatArray


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values of any shape corrected for the number of tests (Holm); NaN stays NaN and is not counted.

    Args:
        p_values: of all tests that are made together.

    Example:
        >>> from bathyscope.extend.statistics import holm
        >>> holm(np.array([0.01, 0.04, np.nan])).tolist()
        [0.02, 0.04, nan]
    """
    corrected = np.full(p_values.shape, np.nan)
    tested = np.isfinite(p_values)
    if tested.any():
        corrected[tested] = multipletests(p_values[tested], method="holm")[1]
    return corrected

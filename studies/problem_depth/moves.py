"""Depth by the changes of state that a problem asks for, at equal numbers of steps.

Longer problems are longer texts, and what is read of longer texts may rise with their length in a model that was never
trained. Among problems of equally many steps some ask for more changes of state than others (a permutation may leave
the point where it is): depth that rises with these *moves* follows what has to be done and not what is written.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import statsmodels.api as sm
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from bathyscope.extend import variable
from studies.common.arrays import FloatArray

LABEL: Final = "moves"
"""The label of prompts that says how many steps change the state."""
COVERAGE: Final = 0.95
_SPARE: Final = 3
"""Problems beyond the columns of the regression, below which it has no interval worth the name."""

Triple = tuple[float, float, float]


def moves_slopes(value: xr.DataArray, levels: list[int], level: str) -> xr.Dataset:
    """Every reading's slope over moves at equal steps, with its interval.

    Args:
        value: (reading, prompt), with the labels ``moves`` and ``level``.
        levels: numbers of steps whose problems count.
        level: the label that holds them.

    Returns:
        By reading: ``moves_slope``, ``moves_low``, ``moves_high``, in the reading's unit for each move; least squares
        with a level for every number of steps, Student's interval with the standard error HC3. NaN where the problems
        that have the reading do not differ in moves at equal steps, or are too few.
    """
    own = value.isel(prompt=np.isin(value[level].values, levels))
    steps, moves = own[level].values, own[LABEL].values
    found = np.array([_slope(own.sel(reading=name).values, moves, steps) for name in own["reading"].values])
    titles = {"slope": "slope over moves at equal steps", "low": "lower end", "high": "upper end of its interval"}
    return xr.Dataset(
        {
            f"moves_{name}": variable(("reading",), found[:, number], title, "block", source="studies.problem_depth")
            for number, (name, title) in enumerate(titles.items())
        },
        {"reading": own["reading"].values},
    )


def _slope(values: FloatArray, moves: NDArray[np.int_], steps: NDArray[np.int_]) -> Triple:
    known = np.isfinite(values)
    levels = np.unique(steps[known])
    columns = np.column_stack([moves[known], steps[known, None] == levels]).astype(np.float64)
    freedom = int(known.sum()) - columns.shape[1]
    if freedom < _SPARE or np.linalg.matrix_rank(columns) < columns.shape[1]:
        return np.nan, np.nan, np.nan
    fitted = sm.OLS(values[known], columns).fit(cov_type="HC3")
    slope, reach = float(fitted.params[0]), float(stats.t.ppf((1 + COVERAGE) / 2, freedom) * fitted.bse[0])
    return slope, slope - reach, slope + reach

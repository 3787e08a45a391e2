"""Do models that use their depth otherwise solve harder problems better? Rank correlation over trained models.

Models differ in recipe and loss besides their seed, so that a correlation over all of them may say no more than that
recipes differ in both. So it is given twice: over all models, and *within*, of ranks less the mean rank of the models
of one recipe and loss. Source: csordas2025 (trained comparison: depth and generalisation).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from bathyscope.comparison.result import holm

FloatArray = NDArray[np.float64]

ACCURACY: Final = "accuracy/extrapolate/all"
"""The quantity that depths are correlated with."""
DEPTHS: Final = ("ratio/", "score/")
"""Beginnings of the names of depths."""
KINDS: Final = ("all", "within")
COVERAGE: Final = 0.95
PERMUTATIONS: Final = 9999
FEWEST: Final = 5
"""Models that are needed, beyond one for each group whose mean is taken away."""


def depth_and_accuracy(value: xr.DataArray) -> xr.Dataset:
    """Rank correlation of every depth with the accuracy on harder problems.

    Args:
        value: (recipe, loss, seed, quantity).

    Returns:
        By ``depth_of`` (a quantity that is a depth) and ``over`` (``all`` models, or ``within`` recipe and loss):
        ``correlation``, ``correlation_low``, ``correlation_high`` (Fisher's z with Bonett & Wright's 2000 standard
        error), ``correlation_p`` (permutations, of all models or within recipe and loss), ``correlation_holm``, and
        ``correlation_models`` (how many have both). NaN where too few models have both, or all agree.
    """
    names = [str(name) for name in value["quantity"].values if str(name).startswith(DEPTHS)]
    if ACCURACY not in value["quantity"].values or not names:
        return xr.Dataset()
    models = value.stack(model=("recipe", "loss", "seed"))
    wanted = models.sel(quantity=ACCURACY).values
    groups = np.array([f"{recipe} {loss}" for recipe, loss, _ in models["model"].values])
    rows = [
        [_correlation(models.sel(quantity=name).values, wanted, _blocks(groups, kind)) for kind in KINDS]
        for name in names
    ]
    found = {
        "correlation": "Spearman's rank correlation of depth and accuracy on harder problems",
        "correlation_low": "lower end of its interval",
        "correlation_high": "upper end of its interval",
        "correlation_p": "two-sided p-value (permutations)",
        "correlation_models": "models that have both",
    }
    dims = ("depth_of", "over")
    data = {
        name: (dims, np.array([[one[place] for one in row] for row in rows]), {"long_name": text, "units": "1"})
        for place, (name, text) in enumerate(found.items())
    }
    made = xr.Dataset(data, {"depth_of": names, "over": list(KINDS)})
    p_values = made["correlation_p"].values
    return made.assign(correlation_holm=(dims, np.column_stack([holm(column) for column in p_values.T])))


def _blocks(groups: NDArray[np.str_], kind: str) -> NDArray[np.intp]:
    """The number of each model's group; all are one group where nothing is taken away."""
    return np.zeros(len(groups), np.intp) if kind == "all" else np.unique(groups, return_inverse=True)[1]


def _correlation(depth: FloatArray, accuracy: FloatArray, group: NDArray[np.intp]) -> tuple[float, ...]:
    """Correlation, its interval and p-value, and the number of models."""
    kept = np.isfinite(depth) & np.isfinite(accuracy)
    depth, accuracy, group = depth[kept], accuracy[kept], group[kept]
    n, taken = len(depth), len(np.unique(group)) - 1
    if n - taken < FEWEST:
        return np.nan, np.nan, np.nan, np.nan, n
    x, y = (_about_groups(stats.rankdata(one), group) for one in (depth, accuracy))
    size = np.sqrt((x @ x) * (y @ y))
    if size <= 1e-9 * n**3:
        return np.nan, np.nan, np.nan, np.nan, n
    r = float(np.clip(x @ y / size, -1, 1))
    reach = stats.norm.ppf((1 + COVERAGE) / 2) * np.sqrt((1 + r * r / 2) / (n - taken - 3))
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    return r, float(np.tanh(z - reach)), float(np.tanh(z + reach)), _p_value(x, y, group), n


def _about_groups(ranks: FloatArray, group: NDArray[np.intp]) -> FloatArray:
    """Ranks less the mean of their group."""
    found: FloatArray = ranks - (np.bincount(group, weights=ranks) / np.bincount(group))[group]
    return found


def _p_value(x: FloatArray, y: FloatArray, group: NDArray[np.intp]) -> float:
    """Share of the dealings of x, within groups, with at least as large a covariance."""
    rng = np.random.default_rng(0)
    dealt = np.empty((PERMUTATIONS, len(x)))
    for one in np.unique(group):
        own = np.flatnonzero(group == one)
        dealt[:, own] = rng.permuted(np.tile(x[own], (PERMUTATIONS, 1)), axis=1)
    as_large = np.abs(dealt @ y) >= abs(x @ y) * (1 - 1e-9)
    return float((1 + as_large.sum()) / (1 + PERMUTATIONS))

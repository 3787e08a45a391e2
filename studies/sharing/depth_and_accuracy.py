"""Do models that use their depth otherwise solve harder problems better? Rank correlation over trained models.

Models differ in recipe and loss besides their seed. A correlation over all of them may say no more than that recipes
differ in both, and its interval takes models for independent, which those of one recipe are not. So there is a second
one *within* recipe and loss: of aligned ranks (Hodges & Lehmann 1962), the ranks of what is left of depth and accuracy
after the mean of the models of one recipe and loss is taken away. Only this one is tested. Source: csordas2025 (trained
comparison: depth and generalisation).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from bathyscope.extend.statistics import holm
from studies.common.arrays import FloatArray

ACCURACY: Final = "accuracy/extrapolate/all"
"""The quantity that depths are correlated with."""
IN_BLOCKS: Final = ("score/", "erasure_depth")
DEPTHS: Final = ("ratio/", *IN_BLOCKS)
"""Beginnings of the names of depths."""
KINDS: Final = ("all", "within")
COVERAGE: Final = 0.95
PERMUTATIONS: Final = 9999
FEWEST: Final = 5
"""Models that are needed, beyond one for each group whose mean is taken away."""
_MODEL: Final = ("recipe", "loss", "seed")


def depth_and_accuracy(value: xr.DataArray, n_blocks: xr.DataArray) -> xr.Dataset:
    """Rank correlation of every depth with the accuracy on harder problems.

    Args:
        value: (recipe, loss, seed, quantity).
        n_blocks: (recipe, loss, seed), by which depths in blocks are divided.

    Returns:
        By ``depth_of`` (a quantity that is a depth) and ``over`` (``all`` models, or ``within`` recipe and loss):
        ``correlation``, ``correlation_low``, ``correlation_high`` (Fisher's z with Bonett & Wright's 2000 standard
        error; one degree of freedom less for each mean taken away), and ``correlation_models`` (how many have both);
        ``within`` also ``correlation_p`` (permutations within recipe and loss) and ``correlation_holm`` (over depths).
        NaN where too few models have both, or all agree; a correlation of 1 or −1 has no interval. No variables without
        harder problems.
    """
    names = [str(name) for name in value["quantity"].values if str(name).startswith(DEPTHS)]
    if ACCURACY not in value["quantity"].values or not names:
        return xr.Dataset()
    depths = value.sel(quantity=names)
    in_blocks = xr.DataArray([name.startswith(IN_BLOCKS) for name in names], dims="quantity")
    models = depths.where(~in_blocks, depths / n_blocks).stack(model=_MODEL)
    wanted = value.sel(quantity=ACCURACY).stack(model=_MODEL).values
    groups = np.unique([f"{recipe} {loss}" for recipe, loss, _ in models["model"].values], return_inverse=True)[1]
    taken_away = {"all": np.zeros_like(groups), "within": groups}
    rows = [
        [_correlation(models.sel(quantity=name).values, wanted, taken_away[kind]) for kind in KINDS] for name in names
    ]
    found = {
        "correlation": "Spearman's rank correlation of depth and accuracy on harder problems",
        "correlation_low": "lower end of its interval",
        "correlation_high": "upper end of its interval",
        "correlation_p": "two-sided p-value (permutations within recipe and loss)",
        "correlation_models": "models that have both",
    }
    dims = ("depth_of", "over")
    data = {
        name: (dims, np.array([[one[place] for one in row] for row in rows]), {"long_name": text, "units": "1"})
        for place, (name, text) in enumerate(found.items())
    }
    made = xr.Dataset(data, {"depth_of": names, "over": list(KINDS)})
    # models of one recipe are not exchangeable with those of another
    made["correlation_p"] = made["correlation_p"].where(made["over"] == "within")
    p_values = made["correlation_p"].values
    return made.assign(correlation_holm=(dims, np.column_stack([holm(column) for column in p_values.T])))


def _correlation(depth: FloatArray, accuracy: FloatArray, group: NDArray[np.intp]) -> tuple[float, ...]:
    """Correlation about the means of groups, its interval and p-value, and the number of models."""
    kept = np.isfinite(depth) & np.isfinite(accuracy)
    n, taken = int(kept.sum()), len(np.unique(group[kept])) - 1
    x, y = (_aligned_ranks(one[kept], group[kept]) for one in (depth, accuracy))
    size = np.sqrt((x @ x) * (y @ y))
    if n - taken < FEWEST or size == 0:
        return np.nan, np.nan, np.nan, np.nan, n
    r = float(np.clip(x @ y / size, -1, 1))
    p_value = _p_value(x, y, group[kept])
    if abs(r) > 1 - 1e-9:
        return r, np.nan, np.nan, p_value, n
    reach = stats.norm.ppf((1 + COVERAGE) / 2) * np.sqrt((1 + r * r / 2) / (n - taken - 3))
    return r, float(np.tanh(np.arctanh(r) - reach)), float(np.tanh(np.arctanh(r) + reach)), p_value, n


def _aligned_ranks(values: FloatArray, group: NDArray[np.intp]) -> FloatArray:
    """Ranks, centred, of what is left of the values without their group's mean."""
    left = values - (np.bincount(group, weights=values) / np.maximum(np.bincount(group), 1))[group]
    # what differs by rounding alone is tied
    left = np.round(left / max(np.abs(values).max(initial=0.0), 1e-300), 12)
    ranks: FloatArray = stats.rankdata(left) - (len(left) + 1) / 2
    return ranks


def _p_value(x: FloatArray, y: FloatArray, group: NDArray[np.intp]) -> float:
    """Share of the dealings of x, within groups, with at least as large a covariance."""
    rng = np.random.default_rng(0)
    dealt = np.empty((PERMUTATIONS, len(x)))
    for one in np.unique(group):
        own = np.flatnonzero(group == one)
        dealt[:, own] = rng.permuted(np.tile(x[own], (PERMUTATIONS, 1)), axis=1)
    as_large = np.abs(dealt @ y) >= abs(x @ y) * (1 - 1e-9)
    return float((1 + as_large.sum()) / (1 + PERMUTATIONS))

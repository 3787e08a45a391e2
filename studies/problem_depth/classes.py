"""Depth by which of two models solve a problem: neither, one of them alone, or both.

Problems that only the deep model solves tend to take more steps than those that both solve, so that a reading that
differs between the classes may do so because of the steps. So two things are said: the mean reading of each class, with
the mean number of steps beside it, and how much the reading of problems that only the deep model solves differs from
that of those that both solve *at the same number of steps*; where problems also differ in how many of their steps
change anything, the latter with these in the regression too. Source: csordas2025 (its reviewers' question).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np
import statsmodels.api as sm
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from bathyscope.extend.statistics import Sampling, mean_interval
from studies.common.arrays import FloatArray

ONLY_DEEP: Final = "only deep"
BOTH: Final = "both"
CLASSES: Final = ("neither", "only shallow", ONLY_DEEP, BOTH)
"""Of problems, by which of two models solve them."""
COVERAGE: Final = 0.95
FEW: Final = 5
"""Problems of a class below which it has a mean and no interval."""

Triple = tuple[float, float, float]
_NONE: Final[Triple] = (np.nan, np.nan, np.nan)


def by_class(
    value: xr.DataArray, right: xr.DataArray, steps: NDArray[np.int_], moves: NDArray[np.int_] | None = None
) -> xr.Dataset:
    """Readings of the classes of every two models of different depth and one seed.

    Args:
        value: (reading, blocks, seed, prompt).
        right: (blocks, seed, prompt), whether a model solves a problem.
        steps: of the problems, [prompt].
        moves: how many of a problem's steps change its state, [prompt], where that is known.

    Returns:
        By ``pair`` (coordinates ``shallow`` and ``deep``, numbers of blocks), seed and ``solved_by``: ``class_count``,
        ``class_steps`` (mean number of steps), and, also by reading and ``read_in`` (which of the two models is read),
        ``class_values`` (problems that have the reading), ``class_mean``, ``class_low``, ``class_high`` (bootstrap over
        problems). By pair, seed, reading and ``read_in``: ``same_steps``, ``same_steps_low``, ``same_steps_high``, only
        deep less both at equal steps (least squares with a level for every number of steps, interval robust to unequal
        variances, with the degrees of freedom of the smaller class). NaN where there are too few problems; no interval
        where all problems agree. With ``moves`` also ``same_moves``, ``same_moves_low``, ``same_moves_high``: the same
        with moves in the regression. No variables with fewer than two depths.
    """
    pairs = list(combinations(sorted(int(blocks) for blocks in value["blocks"].values), 2))
    if not pairs:
        return xr.Dataset()
    found = xr.concat(
        [
            xr.concat([_pair(value, right, steps, moves, pair, seed) for seed in value["seed"].values], "seed")
            for pair in pairs
        ],
        "pair",
    )
    names = [f"{shallow} and {deep} blocks" for shallow, deep in pairs]
    coords: dict[str, Any] = {"pair": names, "seed": value["seed"].values, "solved_by": list(CLASSES)}
    coords |= {"shallow": ("pair", [a for a, _ in pairs]), "deep": ("pair", [b for _, b in pairs])}
    return found.assign_coords(coords)


def _pair(
    value: xr.DataArray,
    right: xr.DataArray,
    steps: NDArray[np.int_],
    moves: NDArray[np.int_] | None,
    pair: tuple[int, int],
    seed: Any,
) -> xr.Dataset:
    """The classes of two models of one seed."""
    shallow, deep = (right.sel(blocks=blocks, seed=seed).values.astype(bool) for blocks in pair)
    classes = np.array(CLASSES)[shallow + 2 * deep]
    parts = []
    for role, blocks in zip(("shallow", "deep"), pair):
        own = value.sel(blocks=blocks, seed=seed).transpose("reading", "prompt").values
        means = np.array([[_mean(row[classes == name]) for name in CLASSES] for row in own])
        same = {"same_steps": np.array([_at_equal_steps(row, classes, steps) for row in own])}
        if moves is not None:
            same["same_moves"] = np.array([_at_equal_steps(row, classes, steps, moves) for row in own])
        data: dict[str, Any] = {
            name: (("reading", "solved_by"), means[..., end])
            for end, name in enumerate(("class_mean", "class_low", "class_high"))
        }
        there = [[int(np.isfinite(row[classes == name]).sum()) for name in CLASSES] for row in own]
        data["class_values"] = (("reading", "solved_by"), there)
        data |= {
            f"{name}{end}": ("reading", triples[:, number])
            for name, triples in same.items()
            for number, end in enumerate(("", "_low", "_high"))
        }
        parts.append(xr.Dataset(data, {"reading": value["reading"].values}).assign_coords(read_in=role))
    members = [classes == name for name in CLASSES]
    counts = {
        "class_count": ("solved_by", [int(member.sum()) for member in members]),
        "class_steps": ("solved_by", [float(steps[member].mean()) if member.any() else np.nan for member in members]),
    }
    return xr.concat(parts, "read_in").assign(counts)


def _mean(values: FloatArray) -> Triple:
    """Mean of the problems that have a value, and its interval."""
    values = values[np.isfinite(values)]
    if not values.size:
        return _NONE
    mean = float(values.mean())
    if values.size < FEW or _agree(values):
        return mean, np.nan, np.nan
    return mean, *mean_interval(values, Sampling(level=COVERAGE))


def _at_equal_steps(
    values: FloatArray, classes: NDArray[Any], steps: NDArray[np.int_], moves: NDArray[np.int_] | None = None
) -> Triple:
    """Only deep less both, from the numbers of steps that hold problems of both classes; with moves, at equal ones."""
    of_both = {int(k) for k in steps[(classes == BOTH) & np.isfinite(values)]}
    shared = of_both & {int(k) for k in steps[(classes == ONLY_DEEP) & np.isfinite(values)]}
    kept = np.isin(classes, (ONLY_DEEP, BOTH)) & np.isfinite(values) & np.isin(steps, list(shared))
    levels = np.unique(steps[kept])
    only_deep = classes[kept] == ONLY_DEEP
    if min(only_deep.sum(), (~only_deep).sum()) < FEW:
        return _NONE
    extra = [] if moves is None else [moves[kept]]
    columns = np.column_stack([only_deep, steps[kept, None] == levels, *extra]).astype(np.float64)
    if np.linalg.matrix_rank(columns) < columns.shape[1]:
        return _NONE
    fitted = sm.OLS(values[kept], columns).fit(cov_type="HC3")
    difference = float(fitted.params[0])
    if _agree(fitted.resid, float(np.abs(values[kept]).max())):
        return difference, np.nan, np.nan
    freedom = min(only_deep.sum(), (~only_deep).sum()) - 1
    reach = float(stats.t.ppf((1 + COVERAGE) / 2, freedom) * fitted.bse[0])
    return difference, difference - reach, difference + reach


def _agree(values: FloatArray, scale: float | None = None) -> bool:
    """Whether values differ by rounding alone: no spread from which an interval could follow."""
    size = float(np.abs(values).max()) if scale is None else scale
    return bool(np.ptp(values) <= 1e-12 * size)

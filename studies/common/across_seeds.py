"""What several seeds say together: means, and differences between two recipes paired by seed, with Student's intervals.

A seed draws weights and training problems; two recipes with the same seed read the same problems in the same order, so
that what the problems do to both cancels in their difference. The interval is mean ± t · s / √n, t Student's quantile
with n − 1 degrees of freedom (4.3 for three seeds and 95 %). It takes the seeds' values for normal, which so few cannot
show, and is not cut to what a share can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import xarray as xr
from scipy import stats

from studies.common.console import write_table

COVERAGE: Final = 0.95


def means(value: xr.DataArray) -> xr.Dataset:
    """Over ``seed``: ``mean``, ``mean_low``, ``mean_high`` and ``mean_seeds`` (how many have a value).

    NaN without a value; ends are NaN with fewer than two.
    """
    return _with_interval(value, "mean")


def differences(value: xr.DataArray, between: str) -> xr.Dataset:
    """First minus second of the two members of a dimension, seed by seed, and then as ``means``.

    Args:
        value: with ``seed`` and ``between``, a dimension of two.

    Returns:
        ``difference``, ``difference_low``, ``difference_high`` and ``difference_seeds`` (how many have both values).
    """
    if value.sizes[between] != 2:
        raise ValueError(f"{between} has {value.sizes[between]} members; a difference is between two")
    return _with_interval(value.isel({between: 0}, drop=True) - value.isel({between: 1}, drop=True), "difference")


def said(value: xr.DataArray) -> dict[str, float]:
    """For a row of a table: ``mean``, ``low``, ``high``, ``least``, ``most`` and ``seeds`` of one value by seed."""
    found = {name: float(own) for name, own in _with_interval(value, "mean").data_vars.items()}
    ends = {name: found[f"mean{end}"] for name, end in (("mean", ""), ("low", "_low"), ("high", "_high"))}
    return {**ends, "least": float(value.min()), "most": float(value.max()), "seeds": int(found["mean_seeds"])}


def apart(ours: Sequence[float], others: Sequence[float]) -> dict[str, float]:
    """``mean``, ``low`` and ``high`` of our mean less theirs, of models that share no seed: Welch's interval.

    NaN where one of the two has no value, ends where one has fewer than two.
    """
    both = [np.asarray(one, dtype=np.float64) for one in (ours, others)]
    known = [one[np.isfinite(one)] for one in both]
    mean = float(known[0].mean() - known[1].mean()) if all(one.size for one in known) else math.nan
    if min(one.size for one in known) < 2:
        return {"mean": mean, "low": math.nan, "high": math.nan}
    found = stats.ttest_ind(*known, equal_var=False).confidence_interval(COVERAGE)
    return {"mean": mean, "low": float(found.low), "high": float(found.high)}


def shown(row: Mapping[str, float], form: str = "+.2f") -> str:
    """``mean (low to high)`` of a row by ``said``, the interval where there is one."""
    if math.isnan(row["mean"]):
        return "–"
    interval = "" if math.isnan(row["low"]) else f" ({row['low']:{form}} to {row['high']:{form}})"
    return f"{row['mean']:{form}}{interval}"


def show_together(by_blocks: Mapping[int, Mapping[str, Sequence[float]]]) -> None:
    """A table of means over models of equally many blocks; nothing where each number of blocks has one model."""
    rows = [
        [str(blocks), name, shown(said(xr.DataArray(list(values), dims="seed")))]
        for blocks, own in by_blocks.items()
        for name, values in own.items()
        if len(values) > 1
    ]
    if rows:
        write_table(["blocks", "", "mean"], rows, "Means over models of equally many blocks, with Student's intervals")


def _with_interval(value: xr.DataArray, name: str) -> xr.Dataset:
    count = value.notnull().sum("seed")
    mean = value.mean("seed")
    error = value.std("seed", ddof=1) / np.sqrt(count)
    quantile = stats.t.ppf((1 + COVERAGE) / 2, np.maximum(count - 1, 1))
    reach = (error * quantile).where(count > 1)
    return xr.Dataset({name: mean, f"{name}_low": mean - reach, f"{name}_high": mean + reach, f"{name}_seeds": count})

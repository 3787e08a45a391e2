"""What several seeds say together: means, and differences between two recipes paired by seed, with Student's intervals.

A seed draws weights and training problems; two recipes with the same seed read the same problems in the same order, so
that what the problems do to both cancels in their difference. The interval is mean ± t · s / √n, t Student's quantile
with n − 1 degrees of freedom (4.3 for three seeds and 95 %). It takes the seeds' values for normal, which so few cannot
show, and is not cut to what a share can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr
from scipy import stats

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


def shown(row: Mapping[str, float], form: str = "+.2f") -> str:
    """``mean (low to high)`` of a row by ``said``, the interval where there is one."""
    if math.isnan(row["mean"]):
        return "–"
    interval = "" if math.isnan(row["low"]) else f" ({row['low']:{form}} to {row['high']:{form}})"
    return f"{row['mean']:{form}}{interval}"


def _with_interval(value: xr.DataArray, name: str) -> xr.Dataset:
    count = value.notnull().sum("seed")
    mean = value.mean("seed")
    error = value.std("seed", ddof=1) / np.sqrt(count)
    quantile = stats.t.ppf((1 + COVERAGE) / 2, np.maximum(count - 1, 1))
    reach = (error * quantile).where(count > 1)
    return xr.Dataset({name: mean, f"{name}_low": mean - reach, f"{name}_high": mean + reach, f"{name}_seeds": count})

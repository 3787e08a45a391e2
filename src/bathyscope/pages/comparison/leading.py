"""The tables that stand first in a comparison: the verdict's readings, and what each block costs."""

import math
from typing import NamedTuple

import xarray as xr

from bathyscope.analysis.depths import Comparison
from bathyscope.core.text import level_text
from bathyscope.pages.comparison.table import show_p, show_ratio, signed


class FirstTable(NamedTuple):
    """A table under its title."""

    title: str
    headings: list[str]
    rows: list[list[str]]


def leading_tables(comparison: Comparison, number: int) -> list[FirstTable]:
    """Return the tables of one comparison; without those of which there is no difference."""
    label = comparison.data["comparison"].values[number]
    tables = []
    readings = comparison.readings.isel(comparison=number).dropna("reading", subset=["difference"])
    interval_title = f"{level_text(comparison.level)} interval"
    if readings.sizes["reading"]:
        rows = [
            [
                str(row["reading"].item()),
                show_ratio(float(row["reference_ratio"])),
                show_ratio(float(row["other_ratio"])),
                signed(float(row["difference"])),
                _write_interval(row),
                show_p(float(row["p_value"])),
            ]
            for row in _rows(readings, "reading")
        ]
        headings = ["Reading", "Reference", "Other", comparison.change.capitalize(), interval_title, "p"]
        tables.append(FirstTable(f"{label}: readings of the verdict, as ratios of L", headings, rows))
    if comparison.blocks is not None:
        costs = comparison.blocks.isel(comparison=number).dropna("block", subset=["difference"])
        rows = [
            [
                str(row["block"].item()),
                signed(float(row["reference_cost"])),
                signed(float(row["other_cost"])),
                signed(float(row["difference"])),
                _write_interval(row),
                show_p(float(row["p_value"])),
                show_p(float(row["p_holm"])),
            ]
            for row in _rows(costs, "block")
        ]
        if rows:
            headings = ["Block", "Reference", "Other", "Difference", interval_title, "p", "Holm"]
            tables.append(FirstTable(f"{label}: loss added without each block, nats per token", headings, rows))
    return tables


def _rows(data: xr.Dataset, dimension: str) -> list[xr.Dataset]:
    return [data.isel({dimension: place}) for place in range(data.sizes[dimension])]


def _write_interval(row: xr.Dataset) -> str:
    low, high = float(row["difference_low"]), float(row["difference_high"])
    return "–" if math.isnan(low) else f"{signed(low)} to {signed(high)}"

"""The tables of a course: a row for every step, how far readings changed, and from when on each block matters."""

from __future__ import annotations

from typing import Final

import pandas as pd
import xarray as xr

from bathyscope.core.estimates import Estimate
from bathyscope.core.tables import TextTable
from bathyscope.surveying.training.course_labels import PER_STEPS

_FIRST_LEFT_OUT: Final = ("late_blocks_gain", "tokens_90", "readable", "later", "idle_blocks", "own")
"""Columns of the table by step that a narrow terminal leaves out, the first ones first."""


def lay_out(data: xr.Dataset) -> list[TextTable]:
    """Return the table by step, how far the readings changed, and from when on each block matters."""
    tables = [_step_table(data)]
    if "change" in data:
        forms = {"last step less first": "+.2f", f"per {PER_STEPS:,} steps": "+.2f"}
        rows = [
            [reading, *(Estimate.of(data.sel(reading=reading), name) for name in ("change", "slope"))]
            for reading in data["reading"].values.tolist()
        ]
        tables.append(TextTable(["reading, in blocks", *forms], rows, forms=forms))
    if "matters_from" in data:
        # where no step has an interval nothing was shown, not even that a block never matters
        unknown = data["added_loss_low"].isnull().all("step").values
        steps = [
            str(int(step)) if step == step else "unknown" if is_unknown else "not shown"
            for step, is_unknown in zip(data["matters_from"].values, unknown)
        ]
        tables.append(TextTable(["block", *map(str, range(len(steps)))], [["matters from step", *steps]]))
    return tables


def _step_table(data: xr.Dataset) -> TextTable:
    """Return the table by step for people: a row a step, every interval in the cell of its estimate."""
    names = [name for name in map(str, table_by_step(data).columns) if not name.endswith(("_low", "_high"))]
    by_step = [data.isel(step=place) for place in range(data.sizes["step"])]
    rows = [
        [Estimate.of(at_step, name) if f"{name}_low" in data else at_step[name].item() for name in names]
        for at_step in by_step
    ]
    return TextTable(
        [name.replace("_", " ") for name in names],
        rows,
        optional=[name.replace("_", " ") for name in _FIRST_LEFT_OUT if name in names],
    )


def table_by_step(data: xr.Dataset) -> pd.DataFrame:
    """Return a row for every step; what is by block stays in the arrays."""
    by_step = [str(name) for name in data.data_vars if data[name].dims == ("step",)]
    return data[["step", *by_step]].to_dataframe().reset_index()

"""Datasets of measures as tables: all values of one, or what variables several have."""

from collections.abc import Hashable, Mapping

import pandas as pd
import xarray as xr

_ROOMY = {"i": "Int64", "u": "UInt64", "b": "boolean"}


def tidy(dataset: xr.Dataset) -> pd.DataFrame:
    """One row an index combination, one column a dimension, a coordinate or a variable.

    Variables that share their dimensions share rows. Where a dataset has variables of several dimension sets
    (``kl`` over prompt × boundary, ``hits`` over prompt × boundary × k), the sets follow each other: each
    row belongs to one of them, and the columns of the others are empty (missing, never zero). Dimensions
    without labels are numbered from 0. The columns are first all dimensions, then coordinates (prompt_id,
    n_tokens …), then variables, each in the dataset's order.
    """
    # Sets of dimensions are not multiplied out: prompts × blocks × tokens × heads would repeat every number many times.
    sets: dict[tuple[Hashable, ...], list[Hashable]] = {}
    for name, variable in dataset.data_vars.items():
        sets.setdefault(variable.dims, []).append(name)
    if not sets:
        return pd.DataFrame()
    frames = [_rows(dataset[names], dims) for dims, names in sets.items()]
    table = pd.concat([_with_room(frame, frames) for frame in frames], ignore_index=True)
    dims = list(dict.fromkeys(dim for key in sets for dim in key))
    others = [name for name in [*dataset.coords, *dataset.data_vars] if name not in dims]
    return table[[name for name in [*dims, *others] if name in table.columns]]


def list_variables(datasets: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Return every variable of every measure: its dimensions, units and meaning."""
    rows = [
        {
            "measure": measure,
            "variable": str(name),
            "dimensions": " × ".join(str(dim) for dim in values.dims),
            "units": str(values.attrs.get("units", "")),
            "meaning": str(values.attrs.get("long_name", "")),
        }
        for measure, dataset in datasets.items()
        for name, values in dataset.data_vars.items()
    ]
    return pd.DataFrame(rows)


def _rows(part: xr.Dataset, dims: tuple[Hashable, ...]) -> pd.DataFrame:
    if not dims:
        return pd.DataFrame({name: [variable.values.item()] for name, variable in part.variables.items()})
    return part.to_dataframe(dim_order=list(dims)).reset_index()


def _with_room(frame: pd.DataFrame, frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Columns that other frames lack, in types that hold a missing value (an integer stays an integer)."""
    lacking_elsewhere = [name for name in frame.columns if not all(name in other.columns for other in frames)]
    return frame.astype(
        {name: _ROOMY[kind] for name in lacking_elsewhere if (kind := frame[name].dtype.kind) in _ROOMY}
    )

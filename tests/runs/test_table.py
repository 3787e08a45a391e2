"""A measure as a tidy table: nothing lost, nothing invented."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.runs.table import tidy

LENS = xr.Dataset(
    {
        "kl": (("prompt", "boundary"), np.arange(6.0, dtype=np.float32).reshape(2, 3)),
        "entropy": (("prompt", "boundary"), np.arange(6.0, 12).reshape(2, 3)),
        "hits": (("prompt", "boundary", "k"), np.arange(12).reshape(2, 3, 2)),
        "crossed": (("prompt",), np.array([True, False])),
    },
    coords={"prompt_id": ("prompt", ["a", "b"]), "n_tokens": ("prompt", [7, 9]), "k": [1, 5]},
)


def test_variables_of_one_dimension_set_share_rows() -> None:
    table = tidy(LENS[["kl", "entropy"]])
    assert list(table.columns) == ["prompt", "boundary", "prompt_id", "n_tokens", "kl", "entropy"]
    assert len(table) == 6
    row = table[(table.prompt == 1) & (table.boundary == 2)].iloc[0]
    assert (row.prompt_id, row.n_tokens, row.kl, row.entropy) == ("b", 9, 5.0, 11.0)
    assert table.dtypes[["prompt", "n_tokens", "kl"]].tolist() == [np.int64, np.int64, np.float32]


def test_every_value_of_several_dimension_sets_is_there_once() -> None:
    table = tidy(LENS)
    assert len(table) == 6 + 12 + 2
    for name, variable in LENS.data_vars.items():
        column = table[name].dropna()
        assert sorted(column.tolist()) == sorted(variable.values.ravel().tolist())
        rows = table.loc[column.index]
        for dim in LENS.dims:
            assert rows[dim].notna().all() == (dim in variable.dims)
    for _, row in table[table.hits.notna()].iterrows():
        assert row.hits == LENS.hits.sel(prompt=row.prompt, boundary=row.boundary, k=row.k).item()


def test_integers_and_truth_values_stay_so_beside_missing_rows() -> None:
    table = tidy(LENS)
    assert table["hits"].dtype == pd.Int64Dtype()
    assert table["boundary"].dtype == pd.Int64Dtype()
    assert table["crossed"].dtype == pd.BooleanDtype()
    assert table["prompt"].dtype == np.int64
    assert table["kl"].dtype == np.float32


def test_coordinates_of_several_dimensions_and_text_labels() -> None:
    strings = np.array([["a", "b"], ["c", ""]])
    dataset = xr.Dataset(
        {"effect": (("prompt", "site", "token"), np.zeros((2, 1, 2)))},
        coords={"site": ["block"], "token_string": (("prompt", "token"), strings)},
    )
    table = tidy(dataset)
    assert table["site"].unique().tolist() == ["block"]
    assert table.set_index(["prompt", "token"])["token_string"].to_dict() == {
        (0, 0): "a",
        (0, 1): "b",
        (1, 0): "c",
        (1, 1): "",
    }


def test_scalars_and_empty_datasets() -> None:
    table = tidy(xr.Dataset({"total": ((), 2.5), "per": (("prompt",), np.zeros(2))}))
    assert table["total"].dropna().tolist() == [2.5]
    assert len(table) == 3
    assert tidy(xr.Dataset()).empty


def test_csv_has_one_line_a_row() -> None:
    assert len(tidy(LENS).to_csv(index=False).splitlines()) == 21

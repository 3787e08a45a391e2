"""Files are laid out as xarray's own writer lays them out, name by name and attribute by attribute."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from support.synthetic_tokens import complete_run

from bathyscope.errors import StoreError
from bathyscope.store.canonical import canonical
from bathyscope.store.netcdf import netcdf
from bathyscope.store.shards import decode

MARKS = {"kept_of": "this"}


def by_xarray(datasets: Mapping[str, xr.Dataset]) -> bytes:
    """The same file by xarray and h5netcdf; no fill values, by which NaN would be absent."""
    groups = {f"/{name}": dataset for name, dataset in datasets.items()}
    plain = {
        path: {name: {"_FillValue": None} for name in dataset.variables if dataset[name].dtype.kind == "f"}
        for path, dataset in groups.items()
    }
    root = groups.get("/", xr.Dataset()).assign_attrs(MARKS)
    content = xr.DataTree.from_dict({**groups, "/": root}).to_netcdf(engine="h5netcdf", encoding=plain)
    assert content is not None
    return bytes(content)


def layout(content: bytes) -> dict[str, Any]:
    """All that a reader of HDF5 finds: names in order, types, shapes, values, attributes, what refers to what."""
    found: dict[str, Any] = {}

    def see(path: str, one: h5py.Group | h5py.Dataset) -> None:
        own = {name: value for name, value in one.attrs.items() if name != "_NCProperties"}
        lists, references = own.pop("DIMENSION_LIST", []), own.pop("REFERENCE_LIST", [])
        attributes = {name: (one.attrs.get_id(name).shape, repr(value)) for name, value in own.items()}
        if isinstance(one, h5py.Group):
            found[path] = list(one), attributes
            return
        scales = [[one.file[reference].name for reference in axis] for axis in lists]
        used_by = sorted((one.file[reference].name, axis) for reference, axis in references)
        # what lies in a scale that only says how long a dimension is means nothing
        values = (
            None if "netCDF dimension" in str(own.get("NAME")) else one[()].tobytes() if one.dtype != "O" else one[()]
        )
        found[path] = one.dtype, one.shape, repr(values), attributes, scales, used_by

    with h5py.File(io.BytesIO(content)) as file:
        see("/", file)
        file.visititems(see)
    return found


def test_every_measure_is_laid_out_as_xarray_does_it() -> None:
    run = complete_run(L=3, prompts=3, tokens=6)
    datasets = {name: canonical(run[name], name) for name in run.measures}
    odd = xr.Dataset(
        {
            "truth": ("x", np.array([True, False])),
            "square": (("x", "x_2"), np.eye(2), {"n": 3, "f": 0.5, "many": [1, 2], "names": ["a", "ß"]}),
            "text": ((), np.array("a – b")),
            # called as a dimension, and no coordinate of it
            "y": ("x", [1, 2]),
            "z": ("y", [1.0, 2.0, 3.0]),
        },
        coords={"x": ["a", "bc"], "near": ("x", [5, 6]), "seed": 7},
        attrs={"k": [1.5, 2.5]},
    )
    datasets["odd"] = canonical(odd, "odd")
    ours, theirs = layout(netcdf(datasets, MARKS)), layout(by_xarray(datasets))
    assert list(ours) == list(theirs)
    for path, wanted in theirs.items():
        assert ours[path] == wanted, path
    xr.testing.assert_identical(decode(netcdf(datasets, MARKS))["odd"], datasets["odd"])


def test_results_at_the_root_are_laid_out_as_xarray_does_it() -> None:
    datasets = {"": canonical(xr.Dataset({"depth": ("member", [1.5, 2.5])}, {"member": ["a", "b"]}), "results")}
    assert layout(netcdf(datasets, MARKS)) == layout(by_xarray(datasets))


@pytest.mark.parametrize("dataset", [xr.Dataset({"a/b": 1.0}), xr.Dataset({"a": ("b/c", [1.0])}), xr.Dataset({3: 1.0})])
def test_names_that_netcdf_does_not_hold_are_refused(dataset: xr.Dataset) -> None:
    with pytest.raises(StoreError, match=r"netCDF has no variable or dimension of the name .*; give it a text without"):
        netcdf({"m": dataset}, {})

"""Canonical datasets laid out as netCDF4 in HDF5, a group a name.

Written by h5py alone, as files are read: xarray's writer asks h5netcdf for every name again and again, which is ten
times slower on files of many small variables, as runs are. Which variables are whose coordinates remains xarray's to
say. Layout: docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html
"""

import io
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import h5py
import numpy as np
import xarray as xr
from h5py import h5a, h5d, h5ds, h5g, h5p, h5s, h5t
from numpy.typing import NDArray
from xarray.conventions import encode_dataset_coordinates

from bathyscope.errors import StoreError

NOT_A_VARIABLE = "This is a netCDF dimension but not a netCDF variable."
"""Beginning of the title of a scale that says only how long a dimension is."""
NOT_OF_ITS_DIMENSION = "_nc4_non_coord_"
"""Before the name of a variable that is called as a dimension and is not its coordinate."""
_TEXT = h5py.string_dtype()
_MADE_BY = f"version=2,hdf5={h5py.version.hdf5_version},h5py={h5py.__version__}"
_PLAIN = h5p.create(h5p.DATASET_CREATE)
_PLAIN.set_obj_track_times(False)
_PLAIN.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)


def netcdf(datasets: Mapping[str, xr.Dataset], marks: Mapping[str, str]) -> bytes:
    """Bytes of a file with these datasets, that of the name "" at its root beside the marks.

    Raises:
        StoreError: a name that netCDF cannot hold.
    """
    content, ids = io.BytesIO(), count()
    with h5py.File(content, "w", track_order=True) as file:
        _fill(file, datasets.get("", xr.Dataset()).assign_attrs(marks), ids)
        for name, dataset in datasets.items():
            if name:
                _fill(file.create_group(name, track_order=True), dataset, ids)
        file.attrs["_NCProperties"] = np.array(_MADE_BY, h5py.string_dtype("ascii", len(_MADE_BY)))
    return content.getvalue()


def _fill(group: h5py.Group, dataset: xr.Dataset, ids: Iterator[int]) -> None:
    """The dataset's attributes, the lengths of its dimensions, and its variables.

    Args:
        ids: numbers of dimensions, of which no two in a file are equal.
    """
    encoded, attributes = encode_dataset_coordinates(dataset)
    _attributes(group.id, attributes)
    variables = {_name(name): variable for name, variable in encoded.items()}
    lengths = {_name(dim): length for variable in variables.values() for dim, length in variable.sizes.items()}
    own = {dim for dim in lengths if dim in variables and variables[dim].dims == (dim,)}
    scales = {dim: _made(group, dim, np.zeros(length, ">f4")) for dim, length in lengths.items() if dim not in own}
    made = {
        name: _made(group, f"{NOT_OF_ITS_DIMENSION}{name}" if name in scales else name, _values(variable))
        for name, variable in variables.items()
    }
    numbers = {dim: np.array(next(ids), np.int32) for dim in lengths}
    for dim, length in lengths.items():
        scale = made[dim] if dim in own else scales[dim]
        _attribute(scale, "_Netcdf4Dimid", numbers[dim])
        h5ds.set_scale(scale, (dim if dim in own else f"{NOT_A_VARIABLE}{length:10}").encode())
    scales |= {dim: made[dim] for dim in own}
    for name, variable in variables.items():
        dims = [str(dim) for dim in variable.dims]
        if name not in own:
            for axis, dim in enumerate(dims):
                h5ds.attach_scale(made[name], scales[dim], axis)
        if dims:
            _attribute(made[name], "_Netcdf4Coordinates", np.array([numbers[dim] for dim in dims]))
        if dims and name not in own:
            _attribute(made[name], "_Netcdf4Dimid", numbers[dims[0]])
        _attributes(made[name], {**variable.attrs, **({"dtype": "bool"} if variable.dtype == bool else {})})


def _name(name: object) -> str:
    if not isinstance(name, str) or not name or "/" in name:
        raise StoreError(f"netCDF has no variable or dimension of the name {name!r}; give it a text without '/'.")
    return name


def _values(variable: xr.Variable) -> NDArray[Any]:
    """Values as they lie in the file: text of any length, and truth values as whole numbers."""
    values = np.asarray(variable.values)
    if values.dtype.kind == "U":
        return values.astype(_TEXT)
    return values.astype(np.int8) if values.dtype == bool else values


def _made(group: h5py.Group, name: str, values: NDArray[Any]) -> h5d.DatasetID:
    """A new array of the group."""
    kind = h5t.py_create(values.dtype, logical=True)
    made = h5d.create(group.id, name.encode(), kind, h5s.create_simple(values.shape), dcpl=_PLAIN)
    made.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values).reshape(values.shape))
    return made


def _attributes(of: h5d.DatasetID | h5g.GroupID, attributes: Mapping[Any, Any]) -> None:
    for name, value in attributes.items():
        texts = isinstance(value, str) or (isinstance(value, list) and isinstance(value[0], str))
        # netCDF has a text, and of numbers only lists
        _attribute(of, str(name), np.array(value, _TEXT) if texts else np.atleast_1d(value))


def _attribute(of: h5d.DatasetID | h5g.GroupID, name: str, values: NDArray[Any]) -> None:
    made = h5a.create(of, name.encode(), h5t.py_create(values.dtype, logical=True), h5s.create_simple(values.shape))
    made.write(values)

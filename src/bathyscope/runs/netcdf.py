"""Datasets as netCDF4 is in HDF5, in the bytes of a file.

Written by h5py: xarray's writer asks h5netcdf for every name again and again, which takes five times as long on files
of many small variables, as runs are. What values mean (truth values, coordinates) remains xarray's to say.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray import conventions

NO_COORDINATE: Final = "_nc4_non_coord_"
"""Before the name of a variable that is called as a dimension and is not its coordinate."""
LENGTH: Final = "This is a netCDF dimension but not a netCDF variable."
"""What the scale of a dimension is called that says no more than how long it is."""
_TEXT: Final = h5py.string_dtype("utf-8")
_NUMBER: Final = "_Netcdf4Dimid"
"""Attribute of a dimension's scale: its place among all dimensions of the file."""


def encode(groups: Mapping[str, xr.Dataset], marks: Mapping[str, str] | None = None) -> bytes:
    """Datasets → bytes of a netCDF4 file: the same for the same datasets.

    Args:
        groups: name → canonical dataset; "" is the root's.
        marks: attributes of the file itself; None = none.

    Source: the netCDF-4 format in HDF5, chapter "The NetCDF-4 Format" of the netCDF file format specifications.
    """
    # In memory first: a file is written in one go (``atomic``), and its hash is known before it is.
    content = io.BytesIO()
    with h5py.File(content, "w", track_order=True) as file:
        _write_attributes(file, marks or {})
        numbers = count()
        for name, dataset in groups.items():
            _write(file.create_group(name, track_order=True) if name else file, dataset, numbers)
    return content.getvalue()


def _write(group: h5py.Group, dataset: xr.Dataset, numbers: Iterator[int]) -> None:
    """Write the variables of one group and the scales of its dimensions, which are numbered through the file."""
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    _write_attributes(group, attributes)
    encoded = {str(name): _encoded(str(name), variable) for name, variable in variables.items()}
    stored = {name: _create(group, name, variable, dataset.sizes) for name, variable in encoded.items()}
    scales = {name: stored[name] for name, variable in encoded.items() if variable.dims == (name,)}
    for name, size in dataset.sizes.items():
        dimension = str(name)
        if dimension in scales:
            scales[dimension].make_scale(dimension)
        else:
            scales[dimension] = _create_array(group, dimension, (size,), np.dtype(">f4"))
            scales[dimension].make_scale(f"{LENGTH}{size:10d}")
        scales[dimension].attrs.create(_NUMBER, np.int32(next(numbers)))
    for name, variable in encoded.items():
        if variable.dims != (name,):
            for axis, label in enumerate(variable.dims):
                h5py.h5ds.attach_scale(stored[name].id, scales[str(label)].id, axis)
        _write_attributes(stored[name], variable.attrs)


def _encoded(name: str, variable: xr.Variable) -> xr.Variable:
    """Return a variable of types that netCDF has."""
    plain = variable.copy(deep=False)
    # Without this xarray adds a fill value to floats, and NaN would be both a number's value and its absence.
    plain.encoding = {"_FillValue": None} if plain.dtype.kind == "f" else {}
    return conventions.encode_cf_variable(plain, name=name)


def _create(group: h5py.Group, name: str, variable: xr.Variable, sizes: Mapping[Any, int]) -> h5py.Dataset:
    """Create a variable with its values."""
    values = np.asarray(variable.values)
    is_text = values.dtype.kind in "OU"
    label = NO_COORDINATE + name if name in sizes and variable.dims != (name,) else name
    stored = _create_array(group, label, values.shape, _TEXT if is_text else values.dtype)
    if values.size:
        stored[...] = values.astype(object) if is_text else values
    return stored


def _create_array(group: h5py.Group, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> h5py.Dataset:
    """Create an array without values; netCDF knows no length of 0 but of a dimension that may still grow."""
    most = tuple(length or None for length in shape) if 0 in shape else None
    return group.create_dataset(name, shape, dtype, maxshape=most, track_order=True)


def _write_attributes(target: h5py.HLObject, attributes: Mapping[Any, Any]) -> None:
    """Write attributes as netCDF has them: texts of any length, and numbers as lists."""
    for name, value in attributes.items():
        if isinstance(value, str):
            target.attrs.create(str(name), value, dtype=_TEXT)
        else:
            listed: NDArray[Any] = np.atleast_1d(np.asarray(value))
            is_text = listed.dtype.kind in "OU"
            target.attrs.create(
                str(name), listed.astype(object) if is_text else listed, dtype=_TEXT if is_text else None
            )

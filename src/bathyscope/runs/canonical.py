"""The one form a result has in the store, whether it is kept in memory or on disk."""

import re
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.errors import StoreError

OF_NETCDF = frozenset(
    {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"}
    | {"_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties"}
)
"""Attributes by which netCDF is in HDF5."""
# By the others netCDF readers change values: a measure's own attribute of that name would corrupt its numbers.
_RESERVED = OF_NETCDF | frozenset(
    {"_FillValue", "missing_value", "scale_factor", "add_offset"} | {"_Unsigned", "_Encoding", "dtype", "coordinates"}
)
_UNWRITABLE_TEXT = re.compile("[\x00\ud800-\udfff]")
_ALLOWED_TYPES = "float32, float64, integers, bool, text"


def canonical(dataset: xr.Dataset, where: str) -> xr.Dataset:
    """A copy of ``dataset`` that survives the trip to disk and back bit for bit.

    Arrays are copied, contiguous and of native byte order. Text has the narrowest fixed width that holds it;
    the characters HDF5 cannot hold are replaced (NUL by its picture U+2400, lone surrogates by U+FFFD).
    Attributes become plain Python values, and a list of one becomes its element, as netCDF makes no
    difference between them.

    Raises:
        StoreError: a name, type or attribute that netCDF cannot hold; ``where`` names the dataset.
    """
    for name in (*dataset.variables, *dataset.sizes):
        if not isinstance(name, str) or not name or "/" in name:
            raise StoreError(
                f"{where} has a variable or dimension of the name {name!r}, which netCDF cannot hold; give it a text "
                "without '/'."
            )
    variables = {name: _variable(variable, f"{where}.{name}") for name, variable in dataset.variables.items()}
    return xr.Dataset(
        {name: variables[name] for name in dataset.data_vars},
        coords={name: variables[name] for name in dataset.coords},
        attrs=_attributes(dataset.attrs, where),
    )


def _variable(variable: xr.Variable, where: str) -> xr.Variable:
    return xr.Variable(variable.dims, _values(np.asarray(variable.values), where), _attributes(variable.attrs, where))


def _values(values: np.ndarray, where: str) -> np.ndarray:
    kind = values.dtype.kind
    if kind in "UT" or (kind == "O" and all(isinstance(value, str) for value in values.flat)):
        clean = [_text(str(value)) for value in values.flat]
        # A width of its own for each array: shards are padded to the widest when they are merged.
        width = max((len(text) for text in clean), default=1)
        return np.array(clean, dtype=f"<U{max(width, 1)}").reshape(values.shape)
    # float16 and long doubles have no type in netCDF; times would come back as numbers.
    if kind not in "fiub" or values.dtype in (np.float16, np.longdouble):
        raise StoreError(
            f"{where} is of type {values.dtype}, which the store does not keep; allowed: {_ALLOWED_TYPES}. "
            "Convert it (for example .astype('float32')) before it is handed over."
        )
    return np.array(values, dtype=values.dtype.newbyteorder("="), order="C")


def _attributes(attrs: dict[Any, Any], where: str) -> dict[str, Any]:
    return {str(name): _attribute(str(name), value, where) for name, value in attrs.items()}


def _attribute(name: str, value: Any, where: str) -> Any:
    if name in _RESERVED:
        raise StoreError(
            f"Attribute {name!r} of {where} has a meaning of its own in netCDF and would change the values; "
            f"give it another name (reserved: {', '.join(sorted(_RESERVED))})."
        )
    # As HDF5 gives them back: one type for a whole list, and no truth values, which it stores as numbers.
    plain = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    items = list(plain) if isinstance(plain, list | tuple) else [plain]
    if items and all(type(item) is str for item in items):
        stored: list[Any] = [_text(item) for item in items]
    elif items and all(type(item) is int and -(2**63) <= item < 2**63 for item in items):
        stored = items
    elif float in map(type, items) and all(type(item) in (int, float) for item in items):
        stored = [float(item) for item in items]
    else:
        raise StoreError(
            f"Attribute {name!r} of {where} is {value!r}, which netCDF cannot hold; allowed: text, integers "
            "of 64 bits, floats, and non-empty lists of one of these (write a truth value as 0 or 1)."
        )
    return stored if len(stored) > 1 else stored[0]


def _text(text: str) -> str:
    return _UNWRITABLE_TEXT.sub(lambda match: "\u2400" if match[0] == "\x00" else "\ufffd", text)

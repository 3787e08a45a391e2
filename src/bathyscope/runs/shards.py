"""Datasets as one netCDF4 file, a group a name: the same bytes for the same datasets, read back bit for bit."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.core.foreign import MOST, read_regular
from bathyscope.core.strict import DAMAGED
from bathyscope.errors import StoreError
from bathyscope.runs.canonical import OF_NETCDF, canonical
from bathyscope.runs.contained import Allowance, attribute_of, contained_groups, fixed_width, scales_of, texts_of
from bathyscope.runs.folder import folder_path, reason, verified
from bathyscope.runs.netcdf import LENGTH, NO_COORDINATE, encode

Datasets = dict[str, xr.Dataset]

_MARK = "kept_"
"""Beginning of the names under which a file says what it is, next to the attributes of a dataset at its root."""
_DIGEST = "kept_sha256"

_SCALES = frozenset({"scale_factor", "add_offset"})
"""Attributes by which other programs pack numbers; what they unpack to is larger than the file says."""


def read_shard(folder: Path, name: str, sha256: str, marks: Mapping[str, str]) -> Datasets:
    """Datasets of a run's file, wholly in memory.

    Args:
        folder: of the run.
        name: of the file in it.
        sha256: of the bytes that were written.
        marks: what the file has to say of itself. Files of the first schema say nothing.

    Raises:
        StoreError: the file is missing, its bytes are not those that were written, or it belongs elsewhere.
    """
    path = folder / name
    datasets, attributes = _decoded(verified(folder, name, sha256), str(path))
    for name, expected in marks.items():
        if attributes.get(name, expected) != expected:
            raise StoreError(
                f"{str(path)!r} says of itself {name}={attributes[name]!r}, and the manifest takes it for "
                f"{expected!r}: one of the two was changed, or put there from another place. Restore the folder from a "
                "copy, or measure again in another one."
            )
    return datasets


def decode(content: bytes, where: str = "The file") -> Datasets:
    """Bytes of a netCDF4 file → canonical datasets, by group.

    Raises:
        StoreError: damaged, or not what this package writes.
    """
    return _decoded(content, where)[0]


def encode_results(datasets: Mapping[str, xr.Dataset]) -> bytes:
    """Datasets of any origin → bytes of a file of their own, which holds a hash of what it holds.

    Raises:
        StoreError: a type or an attribute that netCDF cannot hold.
    """
    stored = {name: canonical(dataset, name or "results") for name, dataset in datasets.items()}
    return encode(stored, {_DIGEST: _digest(stored)})


def read_results(path: str | Path, what: str = "results") -> Datasets:
    """Datasets of a file that :func:`encode_results` made.

    Args:
        what: it holds, for messages.

    Raises:
        StoreError: the file cannot be read, or was altered.
    """
    try:
        datasets, attributes = _decoded(read_regular(folder_path(path), most=MOST), str(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"{str(path)!r} cannot be read as a file of {what} ({reason(error)}).") from error
    actual = _digest(datasets)
    if attributes.get(_DIGEST, actual) != actual:
        raise StoreError(
            f"{str(path)!r} does not hold the {what} that were written: their SHA-256 is {actual}, and the file says "
            f"{attributes[_DIGEST]}. It was altered; restore it from a copy, or compute it again."
        )
    return datasets


def _decoded(content: bytes, where: str) -> tuple[Datasets, dict[str, str]]:
    """Datasets by group, and what the file says of itself.

    Read by h5py: xarray's reader asks h5netcdf for every name again and again, which is 7 times slower on files of many
    small variables, as runs are. What values mean (truth values, coordinates) remains xarray's to say.
    """
    try:
        with h5py.File(io.BytesIO(content)) as file:
            allowance = Allowance(len(content), where)
            groups = contained_groups(file, allowance)
            datasets = {name: _group(*group, allowance) for name, group in groups.items()}
    except StoreError:
        raise
    except DAMAGED as error:
        raise StoreError(
            f"{where} is no whole file of results ({type(error).__name__}: {reason(error)}). Restore it from a copy, "
            "or compute it again."
        ) from error
    root = datasets.pop("")
    marks = {name: root.attrs.pop(name) for name in list(root.attrs) if str(name).startswith(_MARK)}
    return {**({"": root} if root.variables else {}), **datasets}, {str(name): str(m) for name, m in marks.items()}


def _group(group: h5py.Group, datasets: Mapping[str, h5py.Dataset], allowance: Allowance) -> xr.Dataset:
    """The variables of one group, wholly in memory."""
    scales: dict[Any, str] = {}
    variables = {
        name.removeprefix(NO_COORDINATE): xr.Variable(
            _dimensions(name, stored, scales), _values(stored, allowance), _attributes(stored.attrs, allowance)
        )
        for name, stored in datasets.items()
        if not _is_length(stored, allowance)
    }
    raw = xr.Dataset(variables, attrs=_attributes(group.attrs, allowance))
    scaled = next((name for name, variable in variables.items() if _SCALES & variable.attrs.keys()), None)
    if scaled is not None:
        raise ValueError(f"{scaled} is stored in another scale, as no results of ours are")
    # now, while an error is one of this file; left to be decoded later it would come from wherever it is used
    return xr.decode_cf(raw, decode_times=False, decode_timedelta=False).load().drop_encoding()


def _is_length(stored: h5py.Dataset, allowance: Allowance) -> bool:
    """Whether it says only how long a dimension is."""
    name = attribute_of(stored.attrs, "NAME", allowance) if "NAME" in stored.attrs else b""
    return isinstance(name, bytes) and name.startswith(LENGTH.encode())


def _dimensions(name: str, stored: h5py.Dataset, scales: dict[Any, str]) -> tuple[str, ...]:
    """A coordinate of a dimension bears its name; other variables refer to the lengths of theirs.

    Args:
        scales: names that were found before, by what is referred to; HDF5 searches the file for each.
    """
    if "DIMENSION_LIST" not in stored.attrs:
        return (name,) * len(stored.shape)
    # HDF5 refers to a dimension's scale, not to its name; the last part of the scale's own name is the dimension.
    references = [h5py.h5r.dereference(reference, stored.id) for reference in scales_of(stored)]
    for scale in references:
        if scale not in scales:
            scales[scale] = h5py.h5i.get_name(scale).decode().rsplit("/", 1)[-1]
    return tuple(scales[scale] for scale in references)


def _values(stored: h5py.Dataset, allowance: Allowance) -> NDArray[Any]:
    """Values as they are there; text of the narrowest fixed width."""
    if h5py.check_string_dtype(stored.dtype) is None:
        return np.asarray(stored[()])
    return fixed_width(texts_of(stored, allowance), allowance)


def _digest(datasets: Datasets) -> str:
    """SHA-256 over names, dimensions, types, values and attributes, whatever the bytes of the file are."""
    digest = hashlib.sha256()
    for name, dataset in sorted(datasets.items()):
        digest.update(json.dumps([name, dataset.attrs], sort_keys=True).encode())
        for label, variable in sorted(dataset.variables.items(), key=lambda item: str(item[0])):
            # Shape and type enter the hash: the same bytes in another shape are other results.
            form = [str(label), list(variable.dims), variable.dtype.str, list(variable.shape), variable.attrs]
            digest.update(json.dumps(form, sort_keys=True).encode())
            digest.update(np.ascontiguousarray(variable.values).tobytes())
    return digest.hexdigest()


def _attributes(attrs: h5py.AttributeManager, allowance: Allowance) -> dict[str, Any]:
    """Attributes as Python values, without those by which netCDF is in HDF5."""
    return {name: attribute_of(attrs, name, allowance) for name in attrs if name not in OF_NETCDF}

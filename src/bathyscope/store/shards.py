"""One shard = one netCDF4 file, a group a measure: written atomically, hashed, read back bit for bit."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr

from bathyscope.errors import StoreError
from bathyscope.store.atomic import write_atomically


def write_shard(path: Path, datasets: Mapping[str, xr.Dataset]) -> str:
    """Write canonical datasets to ``path``, a group a name; equal datasets give equal bytes.

    Returns:
        the SHA-256 of the file, hexadecimal.

    Raises:
        OSError: the file cannot be written; nothing of it is left then.
    """
    # The file is built in memory: a full disk is then an ordinary error of one write, which HDF5 itself
    # cannot promise, and the hash is that of the bytes meant, not of those a failing disk gives back.
    content = encode(datasets)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def read_shard(path: Path, sha256: str) -> dict[str, xr.Dataset]:
    """Datasets of a shard file, wholly in memory.

    Raises:
        StoreError: the file is missing, or its bytes are not those that were written.
    """
    return decode(verified(path, sha256))


def verified(path: Path, sha256: str) -> bytes:
    """The bytes of ``path``, whose SHA-256 must be ``sha256``."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} of the run cannot be read ({error.strerror}). Make it readable or, where it is "
            "gone, run the same command again to compute it anew."
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise StoreError(
            f"{str(path)!r} is not the file that was written: its SHA-256 is {found} ({len(content):,} "
            f"bytes), the manifest expects {sha256}. It was altered or cut short. Restore it from a copy, or "
            "delete this one file and run the same command again to compute it anew."
        )
    return content


def encode(datasets: Mapping[str, xr.Dataset]) -> bytes:
    """Canonical datasets → bytes of a netCDF4 file."""
    tree = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in datasets.items()})
    # Without this xarray adds a fill value to floats, and NaN would be both a number's value and its absence.
    encoding = {
        f"/{name}": {v: {"_FillValue": None} for v in dataset.variables if dataset[v].dtype.kind == "f"}
        for name, dataset in datasets.items()
    }
    content = tree.to_netcdf(engine="h5netcdf", encoding=encoding)
    if content is None:
        raise TypeError("xarray gave no bytes for a file without a path")
    return bytes(content)


def decode(content: bytes) -> dict[str, xr.Dataset]:
    """Bytes of a netCDF4 file → canonical datasets, by group."""
    tree = xr.open_datatree(
        io.BytesIO(content), engine="h5netcdf", decode_times=False, decode_timedelta=False, cache=False
    )
    with tree:
        return {str(name): _restored(node.to_dataset(inherit=False)) for name, node in tree.children.items()}


def _restored(dataset: xr.Dataset) -> xr.Dataset:
    loaded = dataset.load().drop_encoding()
    for variable in loaded.variables.values():
        variable.attrs = _plain_attributes(variable.attrs)
    loaded.attrs = _plain_attributes(loaded.attrs)
    return loaded


def _plain_attributes(attrs: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for name, value in attrs.items()
    }

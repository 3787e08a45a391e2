"""Files of results: whole or not there, and a disk that refuses is told in one sentence."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.errors import StoreError

if TYPE_CHECKING:
    import xarray as xr


def write_file(path: Path, content: bytes) -> None:
    """Writes a file, and makes its folder; nobody ever reads a part of it.

    Raises:
        StoreError: the disk refuses, with what it says.
    """
    partial = path.with_name(f".partial-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot write {str(path)!r}: {error.strerror}. Choose a folder with free space.") from error


def netcdf(dataset: xr.Dataset, group: str | None = None) -> bytes:
    """The bytes of a netCDF file that holds a dataset; NaN stays a number's value.

    Args:
        group: of the file that holds it; None = the root.
    """
    numbers = [name for name, variable in dataset.variables.items() if variable.dtype.kind == "f"]
    encoding = {name: {"_FillValue": None} for name in numbers}
    return bytes(dataset.to_netcdf(engine="h5netcdf", group=group, encoding=encoding))

"""A file of results holds what it says: no values of other files, and no more of them than its bytes can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import h5py
import numpy as np
from numpy.typing import NDArray

from bathyscope.core.text import in_bytes
from bathyscope.errors import StoreError

_GROWTH: Final = 64
"""Bytes in memory for each byte of a file, at most; files of this package are not compressed and take about one."""
_TEXTS_AT_ONCE: Final = 256
_SMALL: Final = 1 << 24
"""Bytes in memory that any file may take: dimensions without values say only how long they are."""


def require_contained(file: h5py.File, size: int, where: str) -> None:
    """Refuse a file whose values lie elsewhere, or whose declared sizes are beyond what it can hold.

    Everything is added up before anything is read.

    Args:
        file: as it was opened.
        size: bytes of the file.
        where: it is, for messages.

    Raises:
        StoreError: links, external storage, views of other datasets, or too large in memory.
    """
    declared = 0
    for name, stored in _datasets(file, where):
        if stored.external or stored.is_virtual:
            raise StoreError(
                f"{where} keeps the values of {name!r} in another file, and nothing but the file itself is read. Get "
                "it from a source that can be trusted."
            )
        declared += stored.size * stored.dtype.itemsize if stored.shape is not None else 0
    require_size(declared, size, where)


def require_size(declared: int, size: int, where: str) -> None:
    """Refuse what takes far more room in memory than its file has bytes.

    Raises:
        StoreError: says both sizes.
    """
    if declared > size * _GROWTH + _SMALL:
        raise StoreError(
            f"{where} has {in_bytes(size)} and declares values of {in_bytes(declared)}, which it cannot hold. It is "
            "damaged or was made to fill the memory; restore it from a copy."
        )


def texts_of(stored: h5py.Dataset, size: int, where: str) -> NDArray[np.object_]:
    """Read texts of any length a few at a time: many places of a file may refer to one long text.

    Raises:
        StoreError: together they are larger than ``require_size`` allows.
    """
    reader, read = stored.asstr(), 0
    if stored.ndim == 0:
        return np.asarray(reader[()], dtype=object)
    parts: list[NDArray[np.object_]] = []
    for first in range(0, stored.shape[0], _TEXTS_AT_ONCE):
        parts.append(np.asarray(reader[first : first + _TEXTS_AT_ONCE], dtype=object))
        read += sum(len(str(text)) for text in parts[-1].flat)
        require_size(read, size, where)
    return np.concatenate(parts) if parts else np.empty(stored.shape, dtype=object)


def fixed_width(texts: NDArray[np.object_], size: int, where: str) -> NDArray[np.str_]:
    """Return texts of the narrowest fixed width that holds them.

    Raises:
        StoreError: one long text would give all others its width, and take more room than ``require_size`` allows.
    """
    width = max([1, *(len(str(text)) for text in texts.flat)])
    # four bytes a letter
    require_size(4 * width * texts.size, size, where)
    return texts.astype(f"<U{width}")


def _datasets(file: h5py.File, where: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every dataset that is read: of the root, and of its groups."""
    groups = [file, *(file[name] for name in _own_entries(file, where) if isinstance(file[name], h5py.Group))]
    for group in groups:
        for name in _own_entries(group, where):
            if isinstance(group[name], h5py.Dataset):
                yield f"{group.name.rstrip('/')}/{name}", group[name]


def _own_entries(group: h5py.Group, where: str) -> list[str]:
    names = list(group)
    for name in names:
        # an external link would open another file as soon as the entry is looked up
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise StoreError(
                f"{where} holds the link {name!r} in place of values, and no link is followed. Get it from a source "
                "that can be trusted."
            )
    return names

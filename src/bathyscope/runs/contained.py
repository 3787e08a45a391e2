"""A file of results holds what it says: no values of other files, and no more of them than its bytes can be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from bathyscope.core.text import in_bytes
from bathyscope.errors import StoreError

_GROWTH: Final = 64
"""Bytes in memory for each byte of a file, at most; files of this package are not compressed and take about one."""
_SMALL: Final = 1 << 24
"""Bytes in memory that any file may take: dimensions without values say only how long they are."""
_AT_ONCE: Final = 1 << 26
"""Bytes that texts read together may take, where each of them is as long as the file."""
_NUMBERS: Final = "fiub"


class Allowance:
    """What the values of one file may take in memory; every part of it that is read takes its share.

    Args:
        size: bytes of the file.
        where: it is, for messages.
    """

    def __init__(self, size: int, where: str) -> None:
        self.size, self.where = size, where
        self._values = self._texts = 0

    def take(self, declared: int) -> None:
        """Add the bytes of further values.

        Raises:
            StoreError: together they are far more than the file has; says both sizes.
        """
        self._values += declared
        self._require(self._values, self.size * _GROWTH + _SMALL)

    def take_texts(self, read: int) -> None:
        """Add the bytes of texts that were read, none of which is in the file twice.

        Raises:
            StoreError: together they are more than the file has.
        """
        self._texts += read
        self._require(self._texts, self.size + _SMALL)

    def require_references(self, count: int) -> None:
        """Refuse references that are read together, each of which may lead to the same long value.

        Raises:
            StoreError: this many values of the file's size would be too large.
        """
        self._require(count * self.size, self.size * _GROWTH + _SMALL)

    def _require(self, needed: int, allowed: int) -> None:
        if needed > allowed:
            raise StoreError(
                f"{self.where} has {in_bytes(self.size)} and declares values of {in_bytes(needed)}, which it cannot "
                "hold. It is damaged or was made to fill the memory; restore it from a copy."
            )


def contained_groups(file: h5py.File, allowance: Allowance) -> dict[str, tuple[h5py.Group, dict[str, h5py.Dataset]]]:
    """Return the groups of a file with their datasets by name, in the order of the file; the name "" is the root's.

    Refused is a file whose values are elsewhere, or whose declared sizes are beyond what it can hold. Everything is
    added up before anything is read.

    Args:
        file: as it was opened.
        allowance: of the file.

    Raises:
        StoreError: links, external storage, views of other datasets, or too large in memory.
        ValueError: values that are neither numbers nor texts, such as lists of any length.
    """
    entries = _entries(file, allowance.where)
    groups = {"": file} | {name: entry for name, entry in entries.items() if isinstance(entry, h5py.Group)}
    by_group = {}
    declared = 0
    for group_name, group in groups.items():
        inside = _entries(group, allowance.where) if group_name else entries
        datasets = {name: entry for name, entry in inside.items() if isinstance(entry, h5py.Dataset)}
        declared += sum(_declared(stored, allowance.where) for stored in datasets.values())
        by_group[group_name] = (group, datasets)
    allowance.take(declared)
    return by_group


def texts_of(stored: h5py.Dataset, allowance: Allowance) -> NDArray[np.object_]:
    """Read texts of any length a few at a time: many places of a file may refer to one long text.

    Raises:
        StoreError: together they are larger than the file.
    """
    reader, texts = stored.asstr(), np.empty(stored.shape, dtype=object)
    for place in _places(stored.shape, max(1, min(256, _AT_ONCE // allowance.size))):
        part = reader[place]
        # at least as many bytes as letters
        allowance.take_texts(sum(len(text) for text in np.atleast_1d(part).flat))
        texts[place] = part
    return texts


def fixed_width(texts: NDArray[np.object_], allowance: Allowance) -> NDArray[np.str_]:
    """Return texts of the narrowest fixed width that holds them.

    Raises:
        StoreError: one long text would give all others its width, and take more room than the file is allowed.
    """
    width = max([1, *(len(str(text)) for text in texts.flat)])
    # four bytes a letter
    allowance.take(4 * width * texts.size)
    return texts.astype(f"<U{width}")


def attribute_of(attrs: h5py.AttributeManager, name: str, allowance: Allowance) -> Any:
    """Return an attribute as plain Python values; a list of one is its element, as netCDF makes no difference.

    Raises:
        StoreError: its texts are larger than the file is allowed.
        ValueError: neither numbers nor texts.
    """
    declared = attrs.get_id(name)
    _require_plain(declared.dtype, name)
    if _is_long(declared.dtype) and declared.shape:
        allowance.require_references(math.prod(declared.shape))
    value = attrs[name]
    if isinstance(value, h5py.Empty):
        # as an empty text is written
        return ""
    plain = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    items = plain if isinstance(plain, list) else [plain]
    allowance.take_texts(sum(len(item) for item in items if isinstance(item, str | bytes)))
    return plain[0] if isinstance(plain, list) and len(plain) == 1 else plain


def scales_of(stored: h5py.Dataset) -> list[h5py.h5r.Reference]:
    """Return the reference to the one scale of each dimension, in order; none where the file names no scales.

    Raises:
        ValueError: another number of scales.
    """
    if "DIMENSION_LIST" not in stored.attrs:
        return []
    # counted first: the lists of all dimensions may be one list without end
    dimensions = len(stored.shape)
    if stored.attrs.get_id("DIMENSION_LIST").shape != (dimensions,) or any(
        h5py.h5ds.get_num_scales(stored.id, dimension) != 1 for dimension in range(dimensions)
    ):
        raise ValueError(f"{stored.name!r} has no scale for each of its dimensions")
    return [references[0] for references in stored.attrs["DIMENSION_LIST"]]


def _require_plain(dtype: np.dtype[Any], name: str) -> None:
    if h5py.check_string_dtype(dtype) is None and dtype.kind not in _NUMBERS:
        raise ValueError(f"{name!r} holds neither numbers nor texts")


def _is_long(dtype: np.dtype[Any]) -> bool:
    """Whether it is of texts that are elsewhere in the file, each of any length."""
    kind = h5py.check_string_dtype(dtype)
    return kind is not None and kind.length is None


def _places(shape: tuple[int, ...], most: int) -> Iterator[tuple[int | slice, ...]]:
    """Cut an array into places of at most ``most`` values each."""
    inner = math.prod(shape[1:])
    if not shape:
        yield ()
    elif inner > most:
        for first in range(shape[0]):
            yield from ((first, *rest) for rest in _places(shape[1:], most))
    elif inner:
        step = most // inner
        yield from ((slice(first, first + step),) for first in range(0, shape[0], step))


def _declared(stored: h5py.Dataset, where: str) -> int:
    """Return the bytes that a dataset says to take in memory."""
    if stored.external or stored.is_virtual:
        raise StoreError(
            f"{where} keeps the values of {stored.name!r} in another file, and nothing but the file itself is "
            "read. Get it from a source that can be trusted."
        )
    dtype, shape = stored.dtype, stored.shape
    _require_plain(dtype, stored.name)
    return math.prod(shape) * dtype.itemsize if shape is not None else 0


def _entries(group: h5py.Group, where: str) -> dict[str, h5py.HLObject]:
    """Return what a group itself holds."""
    names = list(group)
    links = group.id.links
    for name in names:
        # an external link would open another file as soon as the entry is looked up
        if links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            raise StoreError(
                f"{where} holds the link {name!r} in place of values, and no link is followed. Get it from a source "
                "that can be trusted."
            )
    return {name: group[name] for name in names}

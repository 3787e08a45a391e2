"""Numbers and words as one compressed text that a page holds and its script unpacks.

A header in JSON says where each array lies; arrays are stored byte by byte, all lowest bytes first, which compresses
better. Numbers keep the digits that a page shows: ``f16`` 3, ``f24`` 4, ``permille`` one after the comma of a per cent.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.core.strict import plain

Kind = Literal["f16", "f24", "permille", "whole"]
_MISSING: Final = 0xFFFF
_LARGEST_F16: Final = 65504.0
"""Numbers beyond are kept as ``f24``."""


class Pack:
    """Collects arrays; ``text`` is what the page holds."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: ArrayLike, kind: Kind) -> None:
        """An array of any shape, by rows; NaN is kept, as are whole numbers from 0 on."""
        given = np.asarray(values)
        if kind == "f16" and given.size and np.nanmax(np.abs(given), initial=0.0) > _LARGEST_F16:
            kind = "f24"
        content = _ENCODED[kind](given)
        self._entries[name] = {"kind": kind, "shape": list(given.shape), "at": self._size, "bytes": content.shape[-1]}
        self._chunks.append(content.T.tobytes())
        self._size += content.size

    def text(self, meta: Mapping[str, Any]) -> str:
        """Everything as base64 of a zlib stream: length of the header, header, arrays."""
        told = json.dumps({**plain(meta), "arrays": self._entries}, separators=(",", ":"), allow_nan=False)
        header = told.encode("ascii")
        whole = len(header).to_bytes(4, "little") + header + b"".join(self._chunks)
        return packed(whole)


def packed(content: bytes) -> str:
    """What the script of a page unpacks: base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _bytes(whole: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """The lowest ``width`` bytes of each number, [n, width]."""
    flat = np.ascontiguousarray(whole.astype("<u4").ravel())
    return flat.view(np.uint8).reshape(-1, 4)[:, :width]


def _f16(values: NDArray[Any]) -> NDArray[np.uint8]:
    return _bytes(values.astype(np.float16).view(np.uint16), 2)


def _f24(values: NDArray[Any]) -> NDArray[np.uint8]:
    bits = values.astype(np.float32).view(np.uint32)
    # a NaN's bits must not carry into its sign
    rounded = np.where(np.isfinite(values), bits + np.uint32(0x80), bits)
    return _bytes(rounded >> np.uint32(8), 3)


def _permille(values: NDArray[Any]) -> NDArray[np.uint8]:
    known = ~np.isnan(values)
    return _bytes(np.where(known, np.rint(np.where(known, values, 0.0) * 1000.0), _MISSING), 2)


def _whole(values: NDArray[Any]) -> NDArray[np.uint8]:
    return _bytes(values, 2 if values.size == 0 or int(values.max()) < _MISSING else 4)


_ENCODED: Final = {"f16": _f16, "f24": _f24, "permille": _permille, "whole": _whole}

"""Numbers and words as one compressed text, which a page holds and its script unpacks.

A header in JSON gives the place of each array. Arrays are stored by byte planes, the lowest bytes of all numbers first,
because planes compress better. Numbers have the digits that a page shows: ``f16`` three, ``f24`` four, ``permille`` one
decimal of a per cent.
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
"""Arrays with larger numbers are stored as ``f24``."""


class Pack:
    """Arrays for a page; ``text`` is the packed form."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: ArrayLike, kind: Kind) -> None:
        """Add an array of any shape, flattened by rows; NaN is preserved, and so are whole numbers from 0."""
        array = np.asarray(values)
        if kind == "f16" and array.size and np.nanmax(np.abs(array), initial=0.0) > _LARGEST_F16:
            kind = "f24"
        content = _ENCODED[kind](array)
        self._entries[name] = {"kind": kind, "shape": list(array.shape), "at": self._size, "bytes": content.shape[-1]}
        self._chunks.append(content.T.tobytes())
        self._size += content.size

    def text(self, meta: Mapping[str, Any]) -> str:
        """Return everything as base64 of a zlib stream: length of the header, header, arrays."""
        header_text = json.dumps({**plain(meta), "arrays": self._entries}, separators=(",", ":"), allow_nan=False)
        header = header_text.encode("ascii")
        whole = len(header).to_bytes(4, "little") + header + b"".join(self._chunks)
        return packed(whole)


def packed(content: bytes) -> str:
    """Compress content for a page's script: base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _split_bytes(whole: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Return the lowest ``width`` bytes of each number, [n, width]."""
    # Little-endian on every machine: the page reads its bytes in this order.
    flat = np.ascontiguousarray(whole.astype("<u4").ravel())
    return flat.view(np.uint8).reshape(-1, 4)[:, :width]


def _encode_f16(values: NDArray[Any]) -> NDArray[np.uint8]:
    return _split_bytes(values.astype(np.float16).view(np.uint16), 2)


def _encode_f24(values: NDArray[Any]) -> NDArray[np.uint8]:
    bits = values.astype(np.float32).view(np.uint32)
    # Adding half of the dropped byte rounds to nearest. The bits of NaN stay: a carry would run into the sign.
    rounded = np.where(np.isfinite(values), bits + np.uint32(0x80), bits)
    return _split_bytes(rounded >> np.uint32(8), 3)


def _encode_permille(values: NDArray[Any]) -> NDArray[np.uint8]:
    present = ~np.isnan(values)
    return _split_bytes(np.where(present, np.rint(np.where(present, values, 0.0) * 1000.0), _MISSING), 2)


def _encode_whole(values: NDArray[Any]) -> NDArray[np.uint8]:
    return _split_bytes(values, 2 if values.size == 0 or int(values.max()) < _MISSING else 4)


_ENCODED: Final = {"f16": _encode_f16, "f24": _encode_f24, "permille": _encode_permille, "whole": _encode_whole}

"""Headers of GGUF files with large vocabularies, read in a second.

The reader of the gguf package, which transformers uses, makes several arrays of every token. For 262,144 tokens with
their merges that takes about twenty seconds, and a model with its tokenizer is read by three such readers. The
reader here makes one list of each such array.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct
from sys import byteorder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_LOCK = threading.RLock()


@contextmanager
def quick_headers() -> Iterator[None]:
    """Let transformers read headers of GGUF files quickly inside; the values that it reads are the same."""
    import gguf

    with _LOCK:
        plain = gguf.GGUFReader
        gguf.GGUFReader = _quick_reader(plain)  # type: ignore[misc]
        try:
            yield
        finally:
            gguf.GGUFReader = plain  # type: ignore[misc]


@cache
def _quick_reader(plain: type[Any]) -> type[Any]:
    from gguf import GGUFValueType
    from numpy import asarray, uint32, uint64

    kind_bytes, length_bytes = 4, 8

    class QuickReader(plain):
        """A reader whose arrays of texts and numbers are lists of values, not of arrays of one value."""

        @property
        def data(self) -> np.ndarray:
            return self._plain_data

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            # every slice of a memmap is made to look like a file, which takes longer than the slice
            self._plain_data = asarray(mapped)

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
            if raw_type != GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            start = orig_offs + kind_bytes + length_bytes
            stored_kind = self._get(orig_offs, uint32)
            stored_length = self._get(orig_offs + kind_bytes, uint64)
            kind, length = GGUFValueType(stored_kind[0]), int(stored_length[0])
            values: list[Any]
            if kind == GGUFValueType.STRING:
                values, end = self._texts(start, length)
            elif kind in self.gguf_scalar_to_np:
                numbers = self._get(start, self.gguf_scalar_to_np[kind], length)
                values, end = [(number,) for number in numbers.tolist()], start + numbers.nbytes
            else:
                return super()._get_field_parts(orig_offs, raw_type)
            types = [GGUFValueType.ARRAY, *([kind] if length else [])]
            return end - orig_offs, [stored_kind, stored_length, *values], list(range(2, 2 + length)), types

        def _texts(self, start: int, count: int) -> tuple[list[bytes], int]:
            """Return the texts of an array, and where it ends."""
            swapped = self.byte_order == "S"
            text_length = Struct(">Q" if swapped == (byteorder == "little") else "<Q")
            content, texts, place = self.data.data, [], start
            for _ in range(count):
                (size,) = text_length.unpack_from(content, place)
                place += length_bytes + size
                texts.append(content[place - size : place].tobytes())
            return texts, place

    return QuickReader

"""Headers of GGUF files with large vocabularies, whose long lists are read once.

Such a header holds lists of 262,144 tokens, scores and types. The reader of the gguf package, which transformers uses,
makes several arrays of every token, and a model with its tokenizer is read by seven readers of two packages. Here each
list is walked once, by the check that comes first, and every later reader is given what was read.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from os import stat
from pathlib import Path
from struct import Struct
from sys import byteorder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

_LOCK = threading.RLock()
_LENGTH: Final = Struct("<Q")
_LENGTH_BYTES: Final = 8
_READY: Final = -1
"""A type that the format does not have: transformers passes values of an unknown type on as they are."""
_METADATA_ARGUMENTS: Final = ("blob", "gguf_path", "string_arrays")


class HeaderReading:
    """The lists of one file's header, each under the place in the file where its values begin.

    Args:
        path: the file; if it changes later, nothing that was read of it is given to anybody.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._texts: dict[int, tuple[list[bytes], int]] = {}
        self._values: dict[int, tuple[list[Any], int]] = {}
        self._metadata: tuple[dict[str, Any], int, int] | None = None
        self.text_lists: frozenset[str] = frozenset()
        """Names of the lists that hold texts, once ``metadata`` has been called."""

    def keep_texts(self, start: int, texts: list[bytes], end: int) -> None:
        """Store a list of texts, and the place where it ends."""
        self._texts[start] = texts, end

    def is_of(self, path: str | Path) -> bool:
        """Whether a path still names the file that was read."""
        with suppress(OSError):
            return _stamp(Path(path)) == self._stamp
        return False

    def values(self, start: int, read: Callable[[], tuple[list[Any], int]]) -> tuple[list[Any], int]:
        """Return the values of a list and where it ends; ``read`` is called where nobody has read them yet."""
        if start not in self._values:
            if start in self._texts:
                texts, end = self._texts.pop(start)
                self._values[start] = [text.decode() for text in texts], end
            else:
                self._values[start] = read()
        return self._values[start]

    def metadata(self, read: Callable[[], Any]) -> tuple[dict[str, Any], int, int]:
        """Return all values by name, the number of tensors, and where their table begins."""
        if self._metadata is None:
            reader = read()
            fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
            values = {name: _value(field) for name, field in fields.items()}
            self.text_lists = frozenset(name for name, field in fields.items() if _is_list_of_texts(field))
            end = min((tensor.field.offset for tensor in reader.tensors), default=reader.data_offset)
            self._metadata = values, len(reader.tensors), end
        return self._metadata

    def release(self) -> None:
        """Forget the lists: the last of their readers has come."""
        self._texts.clear()
        self._values.clear()
        self._metadata = None


def walk_texts(content: Any, start: int, count: int, length: Struct = _LENGTH) -> tuple[list[bytes], int]:
    """Return the texts of a list that is known to be whole, and where it ends.

    Args:
        content: bytes of the file.
        start: place of the first text's length.
        length: how lengths are stored.
    """
    texts, place = [], start
    for _ in range(count):
        (size,) = length.unpack_from(content, place)
        place += _LENGTH_BYTES + size
        texts.append(bytes(content[place - size : place]))
    return texts, place


@contextmanager
def quick_headers(reading: HeaderReading) -> Iterator[None]:
    """Let transformers read the header of a file quickly inside; the values that it reads are the same."""
    import gguf

    with _LOCK, ExitStack() as stack:
        _exchange(stack, gguf, "GGUFReader", _quick_reader(reading))
        with suppress(ImportError):
            # the second reader, of newer versions alone
            from transformers.integrations.gguf import reader

            read = getattr(reader, "_read_metadata", None)
            if read is not None and tuple(inspect.signature(read).parameters) == _METADATA_ARGUMENTS:
                _exchange(stack, reader, "_read_metadata", _quick_metadata(read, reading))
        yield


def _exchange(stack: ExitStack, module: Any, name: str, replacement: Any) -> None:
    stack.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, replacement)


def _stamp(path: Path) -> tuple[int, int, int, int]:
    status = stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _value(field: Any) -> Any:
    """Return a field's value as a Python object."""
    return [field.parts[index] for index in field.data] if _is_list(field) else field.contents()


def _is_list(field: Any) -> bool:
    from gguf import GGUFValueType

    return bool(field.types[0] == GGUFValueType.ARRAY)


def _is_list_of_texts(field: Any) -> bool:
    from gguf import GGUFValueType

    # its name, in two parts, and its type come first; then the type of the list's values
    return _is_list(field) and bool(field.parts[3][0] == GGUFValueType.STRING)


def _quick_metadata(read: Callable[..., Any], reading: HeaderReading) -> Callable[..., Any]:
    """Return transformers' second reader, which gives texts of lists only where they are asked for."""
    import gguf

    def read_metadata(blob: Any, gguf_path: str, string_arrays: Container[str] = ()) -> tuple[dict[str, Any], int, int]:
        if not reading.is_of(gguf_path):
            return read(blob, gguf_path, string_arrays)
        values, tensors, end = reading.metadata(lambda: gguf.GGUFReader(gguf_path))
        asked_for = {
            name: len(value) if name in reading.text_lists and name not in string_arrays else value
            for name, value in values.items()
        }
        return asked_for, tensors, end

    return read_metadata


def _quick_reader(reading: HeaderReading) -> Callable[..., Any]:
    """Return a maker of readers, with the lists that were read where the file is the same."""
    quick = _quick_class()

    def make_reader(path: Any, *arguments: Any, **options: Any) -> Any:
        return quick(reading if reading.is_of(path) else HeaderReading(Path(path)), path, *arguments, **options)

    return make_reader


@cache
def _quick_class() -> type[Any]:
    from gguf import GGUFReader, GGUFValueType
    from numpy import asarray, uint32, uint64

    kind_bytes, length_bytes = 4, 8

    class QuickReader(GGUFReader):
        """A reader whose lists of texts and numbers hold Python's values, not arrays of one value."""

        def __init__(self, reading: HeaderReading, *arguments: Any, **options: Any) -> None:
            self._reading = reading
            self._is_inside_list = False
            super().__init__(*arguments, **options)

        @property  # type: ignore[override]
        def data(self) -> np.ndarray:
            return self._plain_data

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            # every slice of a memmap is made to look like a file, which takes longer than the slice
            self._plain_data = asarray(mapped)

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
            if raw_type != GGUFValueType.ARRAY or self._is_inside_list:
                return super()._get_field_parts(orig_offs, raw_type)
            start = orig_offs + kind_bytes + length_bytes
            stored_kind = self._get(orig_offs, uint32)
            stored_length = self._get(orig_offs + kind_bytes, uint64)
            kind, length = GGUFValueType(stored_kind[0]), int(stored_length[0])
            if kind == GGUFValueType.STRING:
                values, end = self._reading.values(start, lambda: self._texts(start, length))
            elif kind in self.gguf_scalar_to_np:
                values, end = self._reading.values(start, lambda: self._numbers(start, length, kind))
            else:
                self._is_inside_list = True
                parts = super()._get_field_parts(orig_offs, raw_type)
                self._is_inside_list = False
                return parts
            types = [GGUFValueType.ARRAY, *([_READY] if length else [])]
            return end - orig_offs, [stored_kind, stored_length, *values], list(range(2, 2 + length)), types

        def _texts(self, start: int, count: int) -> tuple[list[str], int]:
            """Return the texts of a list, and where it ends."""
            swapped = self.byte_order == "S"
            length = Struct(">Q" if swapped == (byteorder == "little") else "<Q")
            texts, end = walk_texts(self.data.data, start, count, length)
            return [text.decode() for text in texts], end

        def _numbers(self, start: int, count: int, kind: int) -> tuple[list[Any], int]:
            numbers = self._get(start, self.gguf_scalar_to_np[GGUFValueType(kind)], count)
            return numbers.tolist(), start + numbers.nbytes

    return QuickReader

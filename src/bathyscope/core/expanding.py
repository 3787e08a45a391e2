"""Packed files that somebody else made: what they unpack to is counted while it is read, and refused beyond a bound."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from contextlib import suppress
from io import BufferedReader, RawIOBase, UnsupportedOperation
from pathlib import Path
from typing import Any, Final

from bathyscope.core.foreign import MOST, MOST_TEXT, UnsafeFileError
from bathyscope.core.text import in_bytes

SMALL: Final = 1 << 26
"""Bytes that any packed file may unpack to: 64 MiB."""
_LOOKED_THROUGH: Final = 1 << 20
"""Bytes of a packed file below which all that it unpacks to is counted first."""
_MOST_TIMES: Final = 100
"""Bytes for each of a larger file, at most; texts have three to ten, and tables of few values some dozens."""


def unpacked(path: Path, stream: BufferedReader) -> BufferedReader:
    """Return what a gzipped stream holds, as a stream that ends in an error where it is more than texts are.

    Args:
        path: of the file, for the message.
        stream: of the packed file, from its beginning.

    Raises:
        UnsafeFileError: while it is read: it has too many bytes, or a line of too many.
    """
    return BufferedReader(_Counted(path, stream))


def most_unpacked(packed: int) -> int:
    """Return the most bytes that a file of ``packed`` bytes may unpack to."""
    return min(max(SMALL, _MOST_TIMES * packed), MOST)


def require_unpacking(path: Path, packed: int, declared: int) -> None:
    """Refuse a packed table by what it says that it unpacks to.

    Raises:
        UnsafeFileError: more than tables do.
    """
    if declared > most_unpacked(packed):
        why = f"its {_in_words(packed)} unpack to {in_bytes(declared)}, as no table's do"
        raise UnsafeFileError(path, errno.EFBIG, why)


def _in_words(packed: int) -> str:
    return in_bytes(packed) if packed >= 1 << 20 else f"{packed:,} bytes"


class _Counted(RawIOBase):
    """The bytes of a gzipped stream, counted; ``most`` in all, and ``MOST_TEXT`` between two ends of lines."""

    def __init__(self, path: Path, stream: BufferedReader) -> None:
        self._path = path
        self._stream = gzip.GzipFile(fileobj=stream)
        self._packed = os.fstat(stream.fileno()).st_size
        self._most = most_unpacked(self._packed)
        self._bytes = self._bytes_in_line = 0
        if self._packed < _LOOKED_THROUGH:
            self._look_through(stream)

    def _look_through(self, stream: BufferedReader) -> None:
        """Count what a small file unpacks to before anybody reads lines of it, which takes a hundred times as long."""
        total = 0
        # a damaged file is said where it is read
        with suppress(OSError, EOFError, zlib.error):
            while total <= self._most and (count := len(self._stream.read(1 << 20))):
                total += count
        stream.seek(0)
        # a reader that has met damage would take the rest of the file for its end
        self._stream = gzip.GzipFile(fileobj=stream)
        self._require_few(total)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go back to the beginning, from where everything is counted again; elsewhere nothing leads uncounted."""
        if (offset, whence) == (0, os.SEEK_CUR):
            return self.tell()
        if (offset, whence) != (0, os.SEEK_SET):
            raise UnsupportedOperation("a packed file is read from its beginning")
        self._bytes = self._bytes_in_line = 0
        return self._stream.seek(0)

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._bytes += count
        last = bytes(buffer[:count]).rfind(b"\n")
        self._bytes_in_line = count - last - 1 if last >= 0 else self._bytes_in_line + count
        self._require_few(self._bytes)
        if self._bytes_in_line > MOST_TEXT:
            self._refuse(f"it has a line of more than {in_bytes(MOST_TEXT)}")
        return count

    def _require_few(self, count: int) -> None:
        if count > self._most:
            self._refuse(f"its {_in_words(self._packed)} unpack to more than {in_bytes(self._most)}, as no text's do")

    def _refuse(self, why: str) -> None:
        raise UnsafeFileError(self._path, errno.EFBIG, why)

"""Files that somebody else may have made: regular ones, inside their folder, no larger than is said, and nothing else.

Every reader of a stored file passes through :func:`open_regular`. What it refuses is an ``OSError`` whose
``strerror`` is a clause (``it is a FIFO, and only regular files are read``), so that a reader says which file that is
and what helps, in the words that it has for files that cannot be read.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Final

from bathyscope.core.text import in_bytes

MOST_TEXT: Final = 1 << 28
"""Bytes of a manifest, a recipe, a record or an index, at most: 256 MiB, a hundred times the largest honest one."""
MOST: Final = 1 << 36
"""Bytes of any file that is read into memory as a whole, at most: 64 GiB."""
_LARGE: Final = 1 << 26
_HOLES: Final = 64
"""Bytes that a large file has for each that was written, at most."""
_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class UnsafeFileError(OSError):
    """A file that is not read, whoever may read it; ``strerror`` says why."""

    def __init__(self, path: Path, number: int, why: str) -> None:
        super().__init__(number, why, str(path))


def open_regular(path: Path, inside: Path | None = None) -> BufferedReader:
    """Open a regular file for reading, without waiting for anybody.

    Args:
        path: of the file.
        inside: the folder that it belongs to; a link that leads out of it is refused. None = a path that a user
            typed, which may be a link.

    Raises:
        UnsafeFileError: no regular file, a large one of holes, or a link that leaves the folder.
        OSError: it is missing or may not be read.
    """
    if inside is not None:
        require_inside(path, inside)
    # a look first, since opening alone may wake a device; then again at what was opened, which may be another file
    _require_regular(path, os.stat(path).st_mode)
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        _require_regular(path, status.st_mode)
        _require_written(path, descriptor, status.st_size)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, inside: Path | None = None, most: int = MOST_TEXT) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path, inside: as for :func:`open_regular`.
        most: bytes that it may have.

    Raises:
        UnsafeFileError: as for :func:`open_regular`, a larger file, or a large one of holes.
        OSError: it is missing or may not be read.
    """
    # a look at its size first, which says more of a large file of holes than that it has them
    _require_small(path, inside, most)
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size <= most:
            # what is added while it is read is not
            return stream.read(size)
    raise UnsafeFileError(path, errno.EFBIG, f"it has {in_bytes(size)}, and at most {in_bytes(most)} are read")


def read_text(path: Path, inside: Path | None = None, most: int = MOST_TEXT) -> str:
    """Return the UTF-8 text of a regular file, as :func:`read_regular` reads it.

    Raises:
        OSError: as for :func:`read_regular`.
        UnicodeDecodeError: it is not UTF-8.
    """
    return read_regular(path, inside, most).decode("utf-8")


def require_regular(path: Path, inside: Path | None = None, most: int = MOST) -> None:
    """Refuse a file that :func:`read_regular` would refuse, for a library that reads it by its path.

    Raises:
        UnsafeFileError: as for :func:`read_regular`.
        OSError: it is missing or may not be looked at.
    """
    if _require_small(path, inside, most) > _LARGE:
        open_regular(path).close()


def require_inside(path: Path, folder: Path) -> None:
    """Refuse a path that a link leads out of its folder; files of the hub's cache are links to its ``blobs``.

    Args:
        path: of a file or a folder, which need not exist.
        folder: that it belongs to, which may be a link itself.

    Raises:
        UnsafeFileError: with the folder that the link leaves; what it points to is not said.
    """
    if _is_plain_entry(path, folder):
        return
    try:
        root, place = folder.resolve(), path.resolve()
    except RuntimeError as error:  # links that lead to each other
        raise UnsafeFileError(path, errno.ELOOP, "its links lead in a circle") from error
    if place.is_relative_to(root) or _is_blob(place, folder):
        return
    why = f"it is a link that leaves {str(folder)!r}, and such links are not followed"
    raise UnsafeFileError(path, errno.EPERM, why)


def kind_of_entry(mode: int) -> str:
    """Return ``a FIFO``, ``a device`` and the like; empty for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no regular file")


def _is_plain_entry(path: Path, folder: Path) -> bool:
    """Whether a path names what lies in the folder itself and is no link, so that nothing has to be resolved."""
    if path.parent != folder or path.name == "..":
        return False
    try:
        return not stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        # missing, or not to be looked at: resolving says what it is
        return False


def _require_small(path: Path, inside: Path | None, most: int) -> int:
    """Refuse what is no regular file of at most this many bytes, before it is opened; return its size."""
    if inside is not None:
        require_inside(path, inside)
    status = os.stat(path)
    _require_regular(path, status.st_mode)
    if status.st_size > most:
        size = in_bytes(status.st_size)
        raise UnsafeFileError(path, errno.EFBIG, f"it has {size}, and at most {in_bytes(most)} are read")
    return status.st_size


def _require_regular(path: Path, mode: int) -> None:
    if kind := kind_of_entry(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise UnsafeFileError(path, number, f"it is {kind}, and only regular files are read")


def _require_written(path: Path, descriptor: int, size: int) -> None:
    """Refuse a large file of holes, which takes no room on the disk and all of the memory."""
    if size <= _LARGE or not hasattr(os, "SEEK_DATA"):
        return
    written = position = 0
    try:
        while written * _HOLES < size:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
            position = os.lseek(descriptor, start, os.SEEK_HOLE)
            written += position - start
    except OSError as error:
        # no values behind this position; whatever else a system says of holes, the file is read
        if error.errno == errno.ENXIO and written * _HOLES < size:
            why = f"it says that it has {in_bytes(size)}, nearly none of which was ever written"
            raise UnsafeFileError(path, errno.EFBIG, why) from error
    os.lseek(descriptor, 0, os.SEEK_SET)


def _is_blob(place: Path, folder: Path) -> bool:
    """Whether a file is in the blobs of the cache's folder that ``snapshots/REVISION`` belongs to."""
    snapshot = folder.resolve()
    of_model = next((above.parent for above in (snapshot, *snapshot.parents) if above.name == "snapshots"), None)
    return of_model is not None and place.parent == of_model / "blobs"

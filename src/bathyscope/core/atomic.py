"""Files that are wholly there or absent, also after a crash or a full disk, under names that nobody can prepare."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bathyscope.core.foreign import require_inside
from bathyscope.core.interrupts import uninterrupted

PARTIAL: Final = ".partial-"
_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def partial_name(path: Path) -> Path:
    """Return a name next to ``path`` for what is not whole yet; the next call returns another one."""
    return path.with_name(f"{PARTIAL}{os.getpid()}-{secrets.token_hex(8)}")


def write_atomically(path: Path, content: bytes, inside: Path | None = None) -> None:
    """Write ``content`` to ``path`` so that no reader and no later process ever sees a part of it.

    The bytes go to a temporary file in the same folder, are forced to the disk, and the file is renamed;
    then the folder itself is forced to the disk, so that the new name outlives a power cut. A link of that name is
    replaced, never followed. Ctrl-C and SIGTERM wait until that is done.

    Args:
        path: of the file; its permissions are those that the umask leaves.
        content: all of its bytes.
        inside: the folder that the file belongs to; None = whatever folder the path leads to.

    Raises:
        OSError: the disk is full, the folder cannot be written, or a link leads out of ``inside``; the temporary file
            has been removed by then.
    """
    with written_atomically(path, inside) as temporary:
        descriptor = create(temporary)
        with open(descriptor, "wb") as stream:
            stream.write(content)
            # Bytes first, then the name: a file system may write a rename to the disk before the file's content.
            stream.flush()
            os.fsync(stream.fileno())


@contextmanager
def written_atomically(path: Path, inside: Path | None = None) -> Iterator[Path]:
    """Lend a temporary name in the folder of ``path``; what is there at the end becomes ``path``.

    Raises:
        OSError: as for :func:`write_atomically`; nothing is left under the temporary name.
    """
    if inside is not None:
        require_inside(path.parent, inside)
    temporary = partial_name(path)
    with uninterrupted():
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def create(path: Path) -> int:
    """Create a file that does not exist yet, not even as a link, and return its descriptor for writing.

    Raises:
        OSError: something of that name is there, or the folder cannot be written.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o666)


def probe(folder: Path) -> None:
    """Write, sync and remove a small file, so that an unusable folder shows before hours of compute."""
    path = partial_name(folder / "probe")
    try:
        write_atomically(path, b"bathyscope\n" * 400)
    finally:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove what killed processes left behind. Only the holder of the folder's lock may call this."""
    for path in folder.rglob(f"{PARTIAL}*"):
        # no process of ours leaves a folder of that name inside of its results
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened as a file
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems know no fsync of a folder; renaming is then as durable as they make it.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)

"""Files that are wholly there or absent, also after a crash or a full disk."""

import errno
import os
from pathlib import Path

from bathyscope.core.interrupts import uninterrupted

PARTIAL = ".partial-"


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that no reader and no later process ever sees a part of it.

    The bytes go to a temporary file in the same folder, are forced to the disk, and the file is renamed;
    then the folder itself is forced to the disk, so that the new name outlives a power cut. Ctrl-C and SIGTERM wait
    until that is done.

    Raises:
        OSError: the disk is full, the folder cannot be written; the temporary file has been removed by then.
    """
    temporary = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    with uninterrupted():
        try:
            with open(temporary, "wb") as stream:
                stream.write(content)
                # Bytes first, then the name: a file system may write a rename to the disk before the file's content.
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def probe(folder: Path) -> None:
    """Write, sync and remove a small file, so that an unusable folder shows before hours of compute."""
    path = folder / f"{PARTIAL}{os.getpid()}-probe"
    try:
        write_atomically(path, b"bathyscope\n" * 400)
    finally:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove what killed processes left behind. Only the holder of the folder's lock may call this."""
    for path in folder.rglob(f"{PARTIAL}*"):
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

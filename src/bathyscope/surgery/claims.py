"""The right to write a folder that appears only when it is whole, from before the work of hours begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bathyscope.errors import StoreError
from bathyscope.runs.atomic import PARTIAL
from bathyscope.runs.folder import reason


@contextmanager
def claimed_alone(folder: Path | None) -> Iterator[None]:
    """Keep other processes from working on the same folder; the lock lies next to it, since it must not exist yet.

    Raises:
        StoreError: another process has it, or its parent cannot be written.
    """
    if folder is None:
        yield
        return
    path = folder.parent / f"{PARTIAL}{folder.name}.lock"
    lock = FileLock(path, thread_local=False)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(
            f"{str(folder)!r} is being made by another process. Wait until it ends, stop it, or give another folder "
            "(--out ...)."
        ) from None
    except (OSError, NotImplementedError) as error:
        raise StoreError(
            f"{str(folder)!r} cannot be written: {reason(error)}. Make its parent writable, or give another folder "
            "(--out ...)."
        ) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held, so that nobody else takes the file that goes
        lock.release()

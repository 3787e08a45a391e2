"""The right to write a folder, from before the work of hours begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bathyscope.core.atomic import PARTIAL
from bathyscope.errors import StoreError
from bathyscope.runs.folder import FolderLock, reason


@contextmanager
def claimed_alone(folder: Path | None) -> Iterator[None]:
    """Keep other processes from making the same folder, which appears only when it is whole.

    Raises:
        StoreError: another process has it, or its parent cannot be written.
    """
    if folder is None:
        yield
        return
    # next to the folder, which must not exist yet
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


@contextmanager
def training_alone(folder: Path | None) -> Iterator[None]:
    """Keep other processes from training in the same folder.

    Raises:
        StoreError: another process does, or the folder cannot be written.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder, "training")
    except OSError as error:
        raise StoreError(
            f"The folder {str(folder)!r} cannot hold the state of a training: {reason(error)}. Make it writable, or "
            "give another one (state=..., --state ...)."
        ) from error
    try:
        yield
    finally:
        lock.release()

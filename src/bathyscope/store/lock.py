"""One writer a folder: a lock that the system releases when its process dies."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from filelock import FileLock, Timeout

from bathyscope.errors import StoreError

LOCK = ".lock"
OWNER = ".owner"


class FolderLock:
    """Exclusive right to write in a folder, from construction to :meth:`release`.

    The lock is the kernel's (``flock`` where the file system has it), so a killed process leaves none behind.
    ``.owner`` only serves the message that a second process gets.

    Raises:
        StoreError: another process is writing there.
        OSError: the lock file cannot be written.
    """

    def __init__(self, folder: Path, noun: str = "run") -> None:
        self._owner = folder / OWNER
        # thread_local=False: a survey may be closed from another thread than the one that opened it.
        self._lock = FileLock(folder / LOCK, thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"The {noun} in {str(folder)!r} is being written by {self._holder()}; one process at a time may "
                f"write there. Wait until it ends, stop it, or give another folder (out=..., --out ...)."
            ) from None
        try:
            self._owner.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Give the right back; a second call does nothing."""
        if self._lock.is_locked:
            self._owner.unlink(missing_ok=True)
            self._lock.release()

    def _holder(self) -> str:
        try:
            return self._owner.read_text(encoding="utf-8").strip() or "another process"
        except FileNotFoundError:  # the holder is just beginning or just ending
            return "another process"

"""The folder of an export: there as a whole, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from bathyscope.errors import StoreError
from bathyscope.interrupts import uninterrupted
from bathyscope.store.atomic import PARTIAL
from bathyscope.surgery.card import RECORD, Record, same

_ROOM = 1 << 26
"""Bytes for everything beside the weights."""


def claimed(folder: Path, record: Record, size: int) -> bool:
    """Whether the folder is to be written; False where it holds the same export already.

    Args:
        size: bytes of the weights.

    Raises:
        StoreError: it holds something else; its parent cannot be made; the disk has no room.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            held = folder / RECORD
            if held.is_file() and same(held.read_text(encoding="utf-8"), record):
                return False
            raise StoreError(
                f"{str(folder)!r} exists and holds {'another export' if held.is_file() else 'something else'}; give a "
                "folder that does not exist yet, or remove this one."
            )
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{str(folder)!r} is a file; give a folder that does not exist yet.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
    except OSError as error:
        raise _unwritable(folder, error) from error
    if free < size + _ROOM:
        raise StoreError(
            f"The export takes {(size + _ROOM) / 2**30:.1f} GiB, and {str(folder.parent)!r} has {free / 2**30:.1f} GiB "
            "left; free some, or give a folder on another disk."
        )
    return True


def put(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills a folder under a temporary name and gives it its own when it is whole; of a failure nothing is left.

    Raises:
        StoreError: the disk is full or the folder cannot be written.
    """
    place = folder.parent / f"{PARTIAL}{os.getpid()}-{folder.name}"
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        fill(place)
        with uninterrupted():
            os.replace(place, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{str(folder)!r} cannot be written ({error.strerror or error}); nothing was left there. Give another folder, "
        "or free some room."
    )

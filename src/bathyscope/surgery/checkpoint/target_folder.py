"""The folder that an export is written to: free or the same export, and whole or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from bathyscope.core.atomic import partial_name, write_atomically
from bathyscope.core.foreign import read_text
from bathyscope.core.interrupts import uninterrupted
from bathyscope.errors import ModelError, StoreError
from bathyscope.model.files import INDEX, SINGLE, require_whole
from bathyscope.surgery.checkpoint.card import CARD, RECORD, ExportRecord, is_same_export

# Bytes for everything but the weights.
_ROOM = 1 << 26


def claimed(folder: Path, record: ExportRecord, size: int) -> bool:
    """Return whether the folder is to be written; False where it holds the same export already.

    Args:
        size: bytes of the weights.

    Raises:
        StoreError: it holds something else; its parent cannot be made; the disk has no room.
    """
    try:
        if require_free(folder):
            if is_same_export(read_text(folder / RECORD, folder), record):
                _require_whole(folder)
                return False
            raise taken_error(folder, "another export")
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
    except OSError as error:
        raise _unwritable_error(folder, error) from error
    if free < size + _ROOM:
        raise StoreError(
            f"The export takes {(size + _ROOM) / 2**30:.1f} GiB, and {str(folder.parent)!r} has {free / 2**30:.1f} GiB "
            "left; free some, or give a folder on another disk."
        )
    return True


def rewrite_card(folder: Path, text: str) -> None:
    """Give an existing export another card.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        write_atomically(folder / CARD, text.encode())
    except OSError as error:
        raise _unwritable_error(folder, error) from error


def _require_whole(folder: Path) -> None:
    """Refuse an existing export whose weights are no longer whole.

    Raises:
        StoreError: they are not, or one of their files is damaged.
    """
    try:
        require_whole(folder, {})
        if not (folder / SINGLE).is_file() and not (folder / INDEX).is_file():
            raise ModelError(f"there is no {SINGLE}")
    except ModelError as error:
        raise StoreError(
            f"{str(folder)!r} holds the same export, but not the whole of it any more ({error}); remove it, and export "
            "again."
        ) from error


def require_free(folder: Path) -> bool:
    """Return whether the folder holds an export, which may be the same one; False where there is nothing yet.

    Raises:
        StoreError: it holds something else, is a file, or a link that leads to no export.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if (folder / RECORD).is_file():
            return True
        raise taken_error(folder, "something else")
    if folder.is_symlink():
        raise StoreError(f"{str(folder)!r} is a symbolic link; give the folder itself that is to be written.")
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{str(folder)!r} is a file; give a folder that does not exist yet.")
    return False


def taken_error(folder: Path, what: str) -> StoreError:
    """Return the error of a folder that holds something else than what is to be written."""
    return StoreError(
        f"{str(folder)!r} exists and holds {what}; give a folder that does not exist yet, or remove this one."
    )


def put(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder under a temporary name and rename it when it is whole; a failure leaves nothing.

    Raises:
        StoreError: the disk is full or the folder cannot be written.
    """
    place = partial_name(folder)
    try:
        place.mkdir()
        fill(place)
        # An interruption is told after the rename, so that whoever hears of it finds all of the folder or nothing.
        with uninterrupted():
            os.replace(place, folder)
    except OSError as error:
        raise _unwritable_error(folder, error) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _unwritable_error(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{str(folder)!r} cannot be written ({error.strerror or error}); nothing was left there. Give another folder, "
        "or free some room."
    )

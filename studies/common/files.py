"""Files of results: whole or not there, and a disk that refuses is told in one sentence."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from bathyscope.errors import StoreError


def write_file(path: Path, content: bytes) -> None:
    """Writes a file, and makes its folder; nobody ever reads a part of it.

    Raises:
        StoreError: the disk refuses, with what it says.
    """
    partial = path.with_name(f".partial-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot write {str(path)!r}: {error.strerror}. Choose a folder with free space.") from error

"""Files for users: whole or not there, and a disk that refuses is told in one sentence."""

from pathlib import Path

from bathyscope.core.atomic import write_atomically
from bathyscope.errors import StoreError


def write_output(path: Path, content: bytes) -> None:
    """Write a file for the user, and create its folder.

    Raises:
        StoreError: the disk refuses, with what it says.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise StoreError(
            f"Cannot write {str(path)!r}: {reason}. Choose a folder that you can write to, on a disk with free space."
        ) from error

"""Files that a command may replace: those of its own kind, recognised by their content, and no file of the user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bathyscope.core.foreign import open_regular
from bathyscope.core.strict import DAMAGED
from bathyscope.errors import StoreError

_HEAD: Final = 1 << 12
"""Bytes at the beginning of a file in which its kind shows."""
_PICTURE_MARKS: Final = {
    # of a badge, of a depth profile, and of what matplotlib draws
    ".svg": (b">bathyscope depth</text>", b'class="bp-', b'<g id="figure_1">'),
    # of the metadata that every figure is written with
    ".png": (b"Software\0bathyscope",),
    ".pdf": (b"/Creator (bathyscope)",),
    ".pgf": (b"%% Creator: Matplotlib, PGF backend",),
}
"""What is in every picture that was drawn here, by the ending of its name."""
_PAGE_MARK: Final = b'<meta name="generator" content="bathyscope'


def require_own(path: Path, kind: str, is_own: Callable[[Path], object]) -> None:
    """Refuse to replace a file of another kind than the one to be written; an empty file may be replaced.

    Args:
        path: of the file to be written, which need not exist.
        kind: what is to be written, such as "a card".
        is_own: says whether the file there is of that kind; an error of reading it means that it is not.

    Raises:
        StoreError: another file has this name.

    Example:
        >>> require_own(Path("new.md"), "a card", is_card)
    """
    # a link is replaced itself: whatever it leads to is neither looked at nor written
    if path.is_symlink() or not path.is_file() or not path.stat().st_size:
        return
    try:
        may_replace = bool(is_own(path))
    except (StoreError, *DAMAGED):
        may_replace = False
    if not may_replace:
        raise StoreError(
            f"{str(path)!r} exists and is not {kind} that bathyscope wrote, so it is not replaced. Give another name, "
            "or remove that file first."
        )


def require_own_picture(path: Path) -> None:
    """Refuse to replace a picture that was not drawn here.

    Raises:
        StoreError: another file has this name.
    """
    if path.suffix.lower() in _PICTURE_MARKS:
        require_own(path, "a picture", _is_picture)


def require_own_page(path: Path) -> None:
    """Refuse to replace an HTML page that was not written here.

    Raises:
        StoreError: another page has this name.
    """
    require_own(path, "a page", lambda page: _PAGE_MARK in _read_head(page))


def _is_picture(path: Path) -> bool:
    with open_regular(path) as stream:
        content = stream.read()
    return any(mark in content for mark in _PICTURE_MARKS[path.suffix.lower()])


def _read_head(path: Path) -> bytes:
    with open_regular(path) as stream:
        return stream.read(_HEAD)

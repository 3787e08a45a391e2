"""Paths as users give them: what no file system takes, or nobody can write, is refused before anything is computed."""

import difflib
import os
import tempfile
from pathlib import Path
from typing import Final

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, StoreError, describe_value

_LONGEST_PART: Final = 255
_LONGEST: Final = 4096
_SHOWN: Final = 40
_NEAR: Final = 0.6


def impossible(path: str) -> str:
    """Say why no file can have this path; empty where one can."""
    try:
        parts = [len(part) for part in path.encode().split(b"/")]
    except UnicodeEncodeError:
        return "holds half a character (a lone surrogate)"
    if "\0" in path:
        return "holds a null character"
    if max(parts) > _LONGEST_PART or sum(parts) + len(parts) > _LONGEST:
        return f"is too long ({len(path)} characters; a name may have {_LONGEST_PART} bytes)"
    return ""


def given_path(path: str | Path, name: str) -> Path:
    """Return the path that a user gave as ``name``, with ``~`` written out.

    Raises:
        OptionError: neither a text nor a path, no file system takes it, or ``~user`` is nobody here.
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(f"{name}={describe_value(path)} is no path; give it as text, such as 'runs/qwen', or a Path.")
    reason = impossible(str(path))
    try:
        if not reason:
            return Path(path).expanduser()
    except RuntimeError:  # of ~user, and of ~ where no home is known
        reason = "begins with the home of an unknown user"
    raise OptionError(f"{name}={elided(repr(str(path)), _SHOWN)} {reason}. Give another path, such as 'runs/qwen'.")


def similar_file(path: str | Path, endings: tuple[str, ...] = ("",)) -> str:
    """Return `` Did you mean 'rows.jsonl'?`` (leading blank) for a file next to a missing one, else the empty string.

    It has the same name with another ending or in other capitals, or the same ending and a name that is similar without
    it: endings alone are shared by all files of a kind.

    Args:
        endings: of files that can be read, in small letters.
    """
    folder, name = os.path.split(path)
    try:
        names = [entry for entry in os.listdir(folder or ".") if os.path.isfile(os.path.join(folder, entry))]
    except OSError:
        return ""
    stem, ending = _parts_of(name)
    candidates: dict[float, str] = {}
    for entry in sorted(names, reverse=True):
        other_stem, other_ending = _parts_of(entry)
        alike = difflib.SequenceMatcher(None, stem, other_stem).ratio()
        if (
            entry != name
            and entry.lower().endswith(endings)
            and (alike == 1 or (alike >= _NEAR and ending == other_ending))
        ):
            candidates[alike + difflib.SequenceMatcher(None, ending, other_ending).ratio()] = entry
    return f" Did you mean {candidates[max(candidates)]!r}?" if candidates else ""


def _parts_of(name: str) -> tuple[str, str]:
    """Return a file's name and its endings, in small letters."""
    first, _, ending = name[1:].partition(".")
    return (name[:1] + first).lower(), ending.lower()


def require_writable(path: Path, *, holds: str = "", option: str = "out=..., --out ...") -> None:
    """Refuse a place that cannot be written, before anything is computed; nothing is left there.

    Args:
        path: of a file, or of a folder, which need not exist yet; nor need the folders above it.
        holds: what a folder is to hold, such as "a run"; empty = it is a file.
        option: which argument and flag the place was given as.

    Raises:
        StoreError: a folder where a file is wanted, or the reverse; above it is no folder, or nothing can be written.
    """
    reason = _unwritable(path, is_folder=bool(holds))
    if reason and holds:
        raise StoreError(
            f"The folder {str(path)!r} cannot hold {holds}: {reason}. Nothing was computed. Make it writable, or give "
            f"another folder ({option})."
        )
    if reason:
        raise StoreError(
            f"Cannot write {str(path)!r}: {reason}. Nothing was computed. Choose a folder that you can write to "
            f"({option})."
        )


def _unwritable(path: Path, *, is_folder: bool) -> str:
    """Say why a place cannot be written; empty where it can."""
    if path.is_dir() and not is_folder:
        return "it is a folder, and a file is wanted"
    places = [*([path] if is_folder else []), *path.absolute().parents]
    nearest = next(place for place in places if os.path.lexists(place))
    if not nearest.is_dir():
        return f"{'it' if nearest == path else repr(str(nearest))} is no folder"
    try:
        # permissions alone do not tell of file systems that take no files
        with tempfile.TemporaryFile(dir=nearest):
            return ""
    except OSError as error:
        return f"{str(nearest)!r} takes no files ({error.strerror or error})"

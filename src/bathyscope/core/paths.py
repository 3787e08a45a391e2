"""Paths as users give them: one that no file system takes is refused before anything is computed."""

from pathlib import Path
from typing import Final

from bathyscope.core.text import elided
from bathyscope.errors import OptionError

_LONGEST_PART: Final = 255
_LONGEST: Final = 4096
_SHOWN: Final = 40


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
        OptionError: no file system takes it, or ``~user`` is nobody here.
    """
    reason = impossible(str(path))
    try:
        if not reason:
            return Path(path).expanduser()
    except RuntimeError:  # of ~user, and of ~ where no home is known
        reason = "begins with the home of an unknown user"
    raise OptionError(f"{name}={elided(repr(str(path)), _SHOWN)} {reason}. Give another path, such as 'runs/qwen'.")

"""What a folder holds, by the file that every folder of its kind has: results of this package, or a model."""

from pathlib import Path
from typing import Final

COURSE: Final = "course.json"
MODEL: Final = "a model"
_CONTENTS: Final = {
    "manifest.json": "a run",
    "prune.json": "a plan",
    "evaluation.json": "an evaluation",
    COURSE: "a course",
    "repair.json": "a repair",
    "config.json": MODEL,
}


def contents_of(folder: str | Path, leave_out: str = "") -> str:
    """Return what a folder holds, such as ``a run``; empty for one of another kind, and for what is no folder.

    Args:
        leave_out: a file that does not count.
    """
    place = Path(folder)
    try:
        return next((what for name, what in _CONTENTS.items() if name != leave_out and (place / name).is_file()), "")
    except OSError:  # a folder that may not be looked into
        return ""

"""Runs opened from their folders or the hub, and published there."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from bathyscope.core.calls import checked
from bathyscope.core.common_options import DRY_RUN
from bathyscope.runs.folder import folder_path
from bathyscope.runs.hub import HUB, pulled
from bathyscope.runs.run import Run
from bathyscope.runs.stored_run import read_alone, read_controls, read_run


def open_run(path: str | Path, *, partial: bool = False) -> Run:
    """Read a run from its folder; every file's checksum is verified.

    Args:
        path: the folder that a survey wrote, or ``hf://datasets/owner/name`` (``@revision``), what ``push`` wrote.
        partial: accept an unfinished run: the prompts whose shards are there, without run-level results.

    Raises:
        OptionError: ``path`` is no path.
        StoreError: no run; a file altered or cut short; unfinished and not ``partial``; nothing there yet.

    Example:
        >>> bathyscope.open("runs/model").n_blocks
        4
    """
    folder = pulled(path) if isinstance(path, str) and path.startswith(HUB) else folder_path(path)
    return read_run(Run, folder, partial)


def without_controls(folder: Path, *, partial: bool = False) -> Run:
    """Return the run in a folder without its controls, which may be about to grow as it did; see ``read_alone``."""
    return read_alone(Run, folder, partial)


def controls_in(folder: Path, *, partial: bool = False, besides: Collection[str] = ()) -> dict[str, Run]:
    """Return the controls in a run's folder, by name; see ``read_controls``."""
    return read_controls(Run, folder, partial=partial, besides=besides)


@checked
def push(
    run: Run | str | Path,
    to: str,
    *,
    private: bool = True,
    keep_paths: bool = False,
    dry_run: Annotated[bool, DRY_RUN] = False,
) -> str:
    """Publishes a run as a data set on the Hugging Face hub, texts of its prompts included where it keeps them.

    Args:
        run: a run, or its folder.
        to: ``owner/name`` of the data set; made where it is not there yet.
        private: whether only its owner can read it.
        keep_paths: publish absolute paths too, such as those of a local model and of files of prompts; else their last
            names alone.

    Returns:
        The address that ``bathyscope.open`` takes, ``hf://datasets/owner/name``; of a dry run the list.

    Raises:
        OptionError: ``to`` is no name.
        StoreError: the run is not finished or altered; there is a run already; no token, no network, no such owner.

    Example:
        >>> bathyscope.push("runs/model", "user/name")  # doctest: +SKIP
        'hf://datasets/user/name'
    """
    return (run if isinstance(run, Run) else open_run(run)).push(
        to, private=private, keep_paths=keep_paths, dry_run=dry_run
    )

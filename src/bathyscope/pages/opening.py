"""Whatever a command wrote, opened as the object that it is."""

import os
import re
from pathlib import Path
from typing import Any, Final

from bathyscope.core.calls import checked
from bathyscope.core.text import elided
from bathyscope.errors import OptionError
from bathyscope.runs.folder import folder_path
from bathyscope.runs.hub import HUB
from bathyscope.runs.opening import open_run

_LENSES: Final = (".safetensors", ".pt")
_ADDRESS: Final = re.compile("[a-z][a-z0-9+.-]*://")
_ARRAYS: Final = ".nc"
"""Endings of files that stand for themselves; everything else is a folder."""


@checked
def open_result(path: str | Path, *, partial: bool = False) -> Any:
    """Open what a command wrote: a run, a plan, a repair, a course, an evaluation, maps or a lens.

    Args:
        path: the folder or file, or ``hf://datasets/owner/name`` (``@revision``), the run that ``push`` wrote.
        partial: of a run: accept an unfinished one, with the prompts whose shards are there and without run-level
            results.

    Returns:
        A ``Run``, ``Plan``, ``Repaired``, course or ``Evaluation`` of a folder; maps of a ``.nc`` file; a
        ``FittedLens`` of a ``.safetensors`` or ``.pt`` file.

    Raises:
        OptionError: ``path`` is no path.
        StoreError: nothing there; a file altered or cut short; unfinished, and not ``partial``.

    Example:
        >>> bathyscope.open("runs/model").n_blocks
        4
    """
    if isinstance(path, str) and path.startswith(HUB):
        return open_run(path, partial=partial)
    if isinstance(path, str) and _ADDRESS.match(path):
        raise OptionError(f"{elided(repr(path), 60)} is no address of a run; of the hub, give {HUB}owner/name.")
    place = folder_path(path)
    # Each kind imports what it needs: reading a run waits for no model library.
    if _is_file_of(place, *_LENSES):
        from bathyscope.measures.jacobian.files import open_lens

        return open_lens(path)
    if _is_file_of(place, _ARRAYS):
        from bathyscope.analysis.between.map_results import open_maps

        return open_maps(path)
    return _open_folder(path, partial)


def is_single_file(path: str | Path) -> bool:
    """Whether a path is of maps or of a lens, which are files; everything else that is opened is a folder."""
    return _is_file_of(Path(path).expanduser(), *_LENSES, _ARRAYS)


def _is_file_of(place: Path, *endings: str) -> bool:
    return place.suffix in endings and not place.is_dir()


def _open_folder(path: str | Path, partial: bool) -> Any:
    from bathyscope.runs.folder import is_course
    from bathyscope.surgery.plan.opening import is_plan, open_plan
    from bathyscope.surgery.repairing.repaired import is_repaired, open_repaired

    if is_plan(path):
        return open_plan(path)
    if is_repaired(path):
        return open_repaired(path)
    if is_course(os.path.expanduser(path)):
        from bathyscope.surveying.training.steps import open_course

        return open_course(path)
    from bathyscope.surgery.benchmarks.shelf import is_evaluation

    if is_evaluation(path):
        from bathyscope.surgery.benchmarks import open_evaluation

        return open_evaluation(path)
    return open_run(path, partial=partial)

"""The folder of a course: which model and prompts it is of, and the finished survey of every step."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.atomic import write_atomically
from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.errors import StoreError
from bathyscope.runs.folder import reason
from bathyscope.runs.manifest import RUN, load_manifest

if TYPE_CHECKING:
    from bathyscope.model import Model
    from bathyscope.surveying.plan import SurveyPlan

ABOUT: Final = "course.json"
"""What makes a folder the folder of a course."""
_STEP: Final = "step-{:08d}"
_STEP_OF_RUN: Final = re.compile(r"step-(\d+)")


def run_folder(folder: Path, step: int) -> Path:
    """Return the folder of a step's survey."""
    return folder / _STEP.format(step)


def is_course(folder: str | Path) -> bool:
    """Return whether a folder is that of a course."""
    return (Path(folder) / ABOUT).is_file()


def finished_runs(folder: Path) -> dict[int, Path]:
    """Return the folders of the finished surveys by step, in order."""
    runs_by_step: dict[int, Path] = {}
    for path in folder.glob("step-*"):
        match = _STEP_OF_RUN.fullmatch(path.name)
        if match is not None and (path / RUN.manifest).exists() and load_manifest(path).record.finished is not None:
            runs_by_step[int(match[1])] = path
    return dict(sorted(runs_by_step.items()))


def finished_weights(folder: Path, step: int) -> str | None:
    """Return the hash of the weights that a step's finished survey is of; None without one."""
    path = run_folder(folder, step)
    if not (path / RUN.manifest).exists():
        return None
    manifest = load_manifest(path)
    return None if manifest.record.finished is None else manifest.identity.weight_hash


def description(plan: SurveyPlan) -> dict[str, Any]:
    """Return what all surveys of a course share: the model's shape, the prompts, measures and seed."""
    return {
        "model": shape_of(plan.model),
        "prompts": {"dataset": plan.prompts.dataset, "number": len(plan.prompts), "hash": plan.prompts.hash},
        "measures": {measure.name: plan.identity()["measures"][measure.name] for measure in plan.measures},
        "seed": plan.seed,
    }


def shape_of(model: Model) -> dict[str, Any]:
    """Return what no training changes of a model."""
    return {
        "type": str(getattr(model.hf.config, "model_type", "")),
        "blocks": model.n_blocks,
        "width": model.anatomy.width,
        "vocabulary": model.anatomy.vocabulary,
    }


def claim_course(folder: Path, about: dict[str, Any]) -> None:
    """Begin the folder of a course, or see that it is this one's.

    Raises:
        StoreError: the course of another model, other prompts or measures; a damaged or unwritable folder.
    """
    path = folder / ABOUT
    stored = read_about(folder)
    if stored is not None:
        changed = [name for name in about if stored.get(name) != json.loads(json.dumps(about[name]))]
        if changed:
            raise StoreError(
                f"{str(folder)!r} holds the course of another training: its {_listed(changed)} "
                f"{'differs' if changed == ['model'] else 'differ'}. Give another folder (out=…), or what that course "
                "was begun with."
            )
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(about, indent=2) + "\n").encode())
    except OSError as error:
        raise StoreError(
            f"The folder {str(folder)!r} cannot hold a course: {reason(error)}. Make it writable, or give another one."
        ) from error


def read_about(folder: Path) -> dict[str, Any] | None:
    """Return what a course's folder says of it; None in a folder that begins.

    Raises:
        StoreError: the file is damaged.
    """
    path = folder / ABOUT
    if not path.exists():
        return None
    try:
        stored = read_json(read_regular(path, folder))
    except DAMAGED as error:
        raise StoreError(f"{str(path)!r} is damaged and cannot be read; remove it or give another folder.") from error
    if not isinstance(stored, dict):
        raise StoreError(f"{str(path)!r} is damaged: it holds no record. Remove it or give another folder.")
    return stored


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]

"""The folder of a course: which model and prompts it is of, and the finished survey of every step."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.atomic import write_atomically
from bathyscope.core.foreign import read_regular
from bathyscope.core.paths import require_writable
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided, written_out
from bathyscope.errors import StoreError, warn
from bathyscope.runs.folder import COURSE, Kind, inner_folders, reason, refuse_foreign, require_own_folder
from bathyscope.runs.manifest import RUN, load_manifest
from bathyscope.surveying.training.options import plain_options

if TYPE_CHECKING:
    from bathyscope.model import Model
    from bathyscope.model.identity import ModelIdentity
    from bathyscope.surveying.plan import SurveyPlan

ABOUT: Final = COURSE
"""What makes a folder the folder of a course."""
TRAINING: Final = "training"
"""Entry of that file: what tells the training from others."""
CONFIGURATION: Final = "configuration"
"""Entry of that file: hash of the settings that its models compute with; earlier versions do not tell it."""
CHECKPOINTS: Final = "checkpoints"
"""Entry of that file: the models of checkpoints by step, from which the training may go on."""
SURVEYED: Final = "surveyed"
"""Entry of that file: hash of the weights that each step was surveyed with; earlier versions do not tell it."""
NOTED_STEP: Final = "step"
"""Note of a finished survey: the step that it is of, whatever its folder is called; earlier versions do not tell it."""
_LONGEST_NAME: Final = 32
_SEVERAL: Final = ("prompts", "measures")
"""Entries of that file that are spoken of as several."""
_STEP: Final = "step-{:08d}"
_COURSE: Final = Kind("course", "bathyscope course", ABOUT, schemas=())
_OWN: Final = "the surveys of a course are folders of its own"
_STEP_OF_RUN: Final = re.compile(r"step-(\d+)")


def run_folder(folder: Path, step: int) -> Path:
    """Return the folder of a step's survey.

    Raises:
        StoreError: it is a link, behind which nothing is read or written.
    """
    path = folder / _STEP.format(step)
    require_own_folder(path, _OWN)
    return path


def require_course_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than a course, which would hide it, or that cannot be written.

    Surveys of steps whose ``course.json`` was removed are no fault; what is taken of them is decided where it is begun
    again (``claim_course``).

    Raises:
        StoreError: with what the folder holds, or why it cannot be written.
    """
    refuse_foreign(folder, _COURSE, belongs=_is_of_step)
    require_writable(folder, holds="a course")


def _is_of_step(entry: Path) -> bool:
    match = _STEP_OF_RUN.fullmatch(entry.name)
    return match is not None and entry == run_folder(entry.parent, int(match[1])) and entry.is_dir()


def finished_runs(folder: Path) -> dict[int, Path]:
    """Return the folders of the finished surveys by step, in order.

    Raises:
        StoreError: one is a link, its manifest cannot be read, or it is the survey of another step.
    """
    runs_by_step: dict[int, Path] = {}
    for path in inner_folders(folder, _OWN, "step-*"):
        match = _STEP_OF_RUN.fullmatch(path.name)
        if match is None or not (path / RUN.manifest).exists():
            continue
        record = load_manifest(path).record
        if record.finished is not None:
            step = int(match[1])
            _require_own_step(path, step, record.notes.get(NOTED_STEP, step))
            runs_by_step[step] = path
    return dict(sorted(runs_by_step.items()))


def _require_own_step(path: Path, step: int, noted: Any) -> None:
    """Refuse a survey that was copied or renamed: its step would be one that was never surveyed."""
    if noted != step:
        name = _STEP.format(noted) if isinstance(noted, int) and noted >= 0 else "step-STEP"
        raise StoreError(
            f"{str(path)!r} holds the survey of step {noted}, and its folder was copied or renamed. Give it its own "
            f"name, {name}, or remove it."
        )


def noted_runs(folder: Path) -> dict[int, Path]:
    """Return the folders of the finished surveys that the course has noted, by step; others may be of any training.

    They are left out with a warning. A course of an earlier version has noted none, and all count.

    Raises:
        StoreError: as ``finished_runs``; one is of other weights than its step was surveyed with.
    """
    runs_by_step = finished_runs(folder)
    weights_by_step = (read_about(folder) or {}).get(SURVEYED)
    if not isinstance(weights_by_step, dict):
        return runs_by_step
    for step, path in runs_by_step.items():
        weights, noted = load_manifest(path).identity.weight_hash, weights_by_step.get(str(step))
        if noted is not None and noted != weights:
            raise StoreError(
                f"{str(path)!r} holds a survey of other weights ({weights[:8]}) than the course surveyed at step "
                f"{step} ({str(noted)[:8]}), as of another training. Restore the course's own from a copy, or remove "
                "this one and survey the checkpoint again."
            )
    others = [step for step in runs_by_step if str(step) not in weights_by_step]
    if others:
        warn(
            f"The course leaves out what it has not surveyed itself: {written_out([f'step {step}' for step in others])}"
            ", which may be of another training. Survey these checkpoints with the course, which compares their "
            "weights, or open their runs one by one."
        )
    return {step: path for step, path in runs_by_step.items() if step not in others}


def note_step(folder: Path, step: int) -> None:
    """Note in the finished survey of a step which step it is of, and in the course which weights it has.

    Raises:
        StoreError: it cannot be written.
    """
    from bathyscope.runs.writer import with_note

    path = run_folder(folder, step)
    if NOTED_STEP not in load_manifest(path).record.notes:
        with_note(path, NOTED_STEP, step)
    stored = read_about(folder)
    if stored is None:
        return
    noted = stored.get(SURVEYED)
    # steps that an earlier version surveyed are taken over together
    steps = [step] if isinstance(noted, dict) else list(finished_runs(folder))
    weights = {str(each): load_manifest(run_folder(folder, each)).identity.weight_hash for each in steps}
    if not isinstance(noted, dict) or noted.get(str(step)) != weights[str(step)]:
        _write(folder, {**stored, SURVEYED: {**(noted if isinstance(noted, dict) else {}), **weights}})


def finished_model(folder: Path, step: int) -> ModelIdentity | None:
    """Return the model that a step's finished survey is of; None without one."""
    path = run_folder(folder, step)
    if not (path / RUN.manifest).exists():
        return None
    manifest = load_manifest(path)
    return None if manifest.record.finished is None else manifest.identity.of_model


def description(plan: SurveyPlan) -> dict[str, Any]:
    """Return what all surveys of a course share: shape and configuration of the model, prompts, measures and seed."""
    from bathyscope.model import config_hash

    return {
        "model": shape_of(plan.model),
        CONFIGURATION: config_hash(plan.model.hf),
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


def shape_text(model: Model, first: Mapping[str, Any]) -> str:
    """Return how a model's shape is another than the first one's of its course; empty where it is the same."""
    differs = [f"{key} {value}" for key, value in shape_of(model).items() if value != first[key]]
    return f"its model has another shape than the first ({', '.join(differs)})" if differs else ""


def claim_course(
    folder: Path, about: dict[str, Any], training: Mapping[str, Any] | None = None, *, takes_in: bool = True
) -> None:
    """Begin the folder of a course, or see that it may be this one's; a course that is there is not written to.

    Args:
        training: what tells it from other trainings of the same model, such as ``learning_rate`` and ``first_weights``;
            what one of both does not tell is no difference.
        takes_in: whether a course that begins takes in all surveys of steps that are there; otherwise each counts from
            when the course has compared its weights.

    Raises:
        StoreError: something else than a course; the course of another model or configuration, another training, other
            prompts or measures; a damaged or unwritable folder.
    """
    require_course_folder(folder)
    stored = read_about(folder)
    options = plain_options(training)
    if stored is None:
        noted: dict[str, Any] = {} if takes_in else {SURVEYED: {}}
        _write(folder, {**about, **({TRAINING: options} if options else {}), **noted})
        return
    _require_same_training(folder, stored.get(TRAINING), options)
    stored = {CONFIGURATION: _configuration_of(folder) or about.get(CONFIGURATION), **stored}
    changed = [name for name in about if stored.get(name) != json.loads(json.dumps(about[name]))]
    if "model" in changed and CONFIGURATION in changed:
        changed.remove(CONFIGURATION)  # the shape follows from the configuration
    if changed:
        raise StoreError(
            f"{str(folder)!r} holds the course of another training: its {written_out(changed)} "
            f"{'differ' if len(changed) > 1 or changed[0] in _SEVERAL else 'differs'}. Give another folder (out=…), or "
            "what that course was begun with."
        )
    if not finished_runs(folder):
        add_options(folder, options)


def _configuration_of(folder: Path) -> str | None:
    """Return the configuration of the first of a course's models that tells it; None where none does."""
    models = (finished_model(folder, step) for step in finished_runs(folder))
    return next((model.configuration for model in models if model is not None and model.configuration), None)


def add_options(folder: Path, training: Mapping[str, Any]) -> None:
    """Tell of a course what an earlier version, or a loop that began without options, did not tell."""
    stored, options = read_about(folder) or {}, plain_options(training)
    course_options = stored.get(TRAINING)
    course_options = course_options if isinstance(course_options, dict) else {}
    if not options.keys() <= course_options.keys():
        _write(folder, {**stored, TRAINING: {**options, **course_options}})


def note_checkpoint(folder: Path, step: int, model: ModelIdentity) -> None:
    """Note the model of a checkpoint, so that a training that goes on from there is known to be the course's."""
    stored = read_about(folder) or {}
    noted = stored.get(CHECKPOINTS)
    _write(folder, {**stored, CHECKPOINTS: {**(noted if isinstance(noted, dict) else {}), str(step): model.record()}})


def noted_checkpoint(folder: Path, step: int) -> ModelIdentity | None:
    """Return the model of a checkpoint that was noted; None without one."""
    from bathyscope.model.identity import ModelIdentity

    noted = (read_about(folder) or {}).get(CHECKPOINTS)
    record = noted.get(str(step)) if isinstance(noted, dict) else None
    return ModelIdentity.of_record(record) if isinstance(record, dict) else None


def _require_same_training(folder: Path, stored: Any, training: Mapping[str, Any]) -> None:
    """Refuse the folder of a training with other options, or from other weights, before its surveys are mixed.

    Raises:
        StoreError: with what differs, and both ways out.
    """
    # an earlier version's file may hold NaN, which is unequal to itself
    course_options = plain_options(stored) if isinstance(stored, dict) else {}
    differences = [
        f"{name}: the course has {_short(course_options[name])}, this training {_short(value)}"
        for name, value in training.items()
        if name in course_options and course_options[name] != value
    ]
    if differences:
        raise StoreError(
            f"{str(folder)!r} holds the course of another training ({'; '.join(differences)}). Give this one another "
            "folder (out=…), or resume that training with its own options."
        )


def _short(value: object) -> str:
    """Return a value of a training for a message; of a hash its first letters."""
    return value[:8] if isinstance(value, str) and len(value) > _LONGEST_NAME else repr(value)


def _write(folder: Path, about: Mapping[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ABOUT, (json.dumps(about, indent=2) + "\n").encode())
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
    if not isinstance(stored, dict) or not stored.keys() & {"model", TRAINING, CHECKPOINTS}:
        raise StoreError(f"{str(path)!r} is damaged: it holds no record of a course. Remove it or give another folder.")
    model = stored.get("model", {})
    vocabulary = model.get("vocabulary", 1) if isinstance(model, dict) else None
    if type(vocabulary) is not int or vocabulary < 1:  # True is an int as well
        raise StoreError(
            f"{str(path)!r} is damaged: {elided(repr(model), 80)} is no model with a vocabulary. Remove it or give "
            "another folder."
        )
    return stored

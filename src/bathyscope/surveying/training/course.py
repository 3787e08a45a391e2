"""``course``: the checkpoints of a training, surveyed step by step into one folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.foreign import read_text
from bathyscope.core.progress import ProgressBar
from bathyscope.core.repeated import Remark, leaving_out, noting
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import written_out
from bathyscope.errors import ModelError, OptionError, StoreError, describe_value, warn
from bathyscope.model import Model, adapters_of, config_hash, load
from bathyscope.model.options import require_loading, require_one_process
from bathyscope.model.reading import tokenized
from bathyscope.model.weights import configuration_difference
from bathyscope.options import items_of, require_no_dict
from bathyscope.prompts.in_memory import Source, listed_once
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.folder import folder_path
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.engines import survey
from bathyscope.surveying.options import CourseOptions
from bathyscope.surveying.training.folder import (
    CONFIGURATION,
    TRAINING,
    claim_course,
    description,
    finished_model,
    finished_runs,
    note_step,
    read_about,
    require_course_folder,
    run_folder,
    shape_text,
)
from bathyscope.surveying.training.step_names import has_step, step_of
from bathyscope.surveying.training.steps import Course, open_course
from bathyscope.surveying.training.watch import MEASURES

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from bathyscope.model.adapter import Adapter

_STATE: Final = "trainer_state.json"
FIRST_LOG: Final = "first_log"
_FIRST_FEW: Final = 3
"""Settings or checkpoints that a message names."""


@takes(CourseOptions)
def course(
    checkpoints: str | Path | Sequence[str | Path],
    prompts: Source | Prompts,
    out: str | Path,
    *,
    revisions: tuple[str, ...] = (),
    measures: tuple[str, ...] = MEASURES,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    loading: Mapping[str, Any] | None = None,
    progress: Progress = True,
) -> Course:
    """Survey the checkpoints of a training, a run a step in one folder; what is there already is not done again.

    Args:
        checkpoints: a folder of ``checkpoint-500``, ``checkpoint-1000`` … or ``step1k``, ``step1.5k`` …, a list of such
            folders, or a model on the hub with ``revisions``.
        prompts: as for ``survey``.
        out: folder of the course.
        ...: the options of ``CourseOptions``.
        loading: arguments of ``load``.

    Returns:
        What ``bathyscope.open`` gives for the folder.

    Raises:
        OptionError: no checkpoint with a step in its name, one whose step cannot be read, or two of one step.
        ModelError, PromptError: as ``survey``. A checkpoint that cannot be read, such as one that is still being
            written, or one of another configuration, shape or tokenizer than the first, is left out with a warning.
        StoreError: the folder holds the course of another model or other prompts, or one that nothing shows to be of
            the same training (no step in common, another place, no ``trainer_state.json``), or something else than a
            course; or no checkpoint could be surveyed.

    Example:
        >>> bathyscope.course("output", "gsm8k:8", "runs/course").step.values  # doctest: +SKIP
        array([ 500, 1000])
    """
    require_loading(loading)
    require_one_process(loading, "course")
    folder = folder_path(out, "out")
    require_course_folder(folder)
    sources = _checkpoints(checkpoints, items_of(revisions, "revisions"))
    names = items_of(measures, "measures")
    reading: dict[str, Any] = {"beyond_context": beyond_context, "add_special_tokens": add_special_tokens, "chat": chat}
    request = Survey(names, seed=seed, **reading)
    # An iterator would be empty at the second checkpoint.
    source: Source | Prompts = listed_once(prompts)
    about: dict[str, Any] | None = None
    first_config: PreTrainedConfig | None = None
    first_adapters: str | None = None
    first_adapter: Adapter | None = None
    first_begun: dict[str, float] | None = None
    first_error: ModelError | None = None
    remarks: Set[Remark] = frozenset()
    surveyed = finished_runs(folder)
    with ProgressBar(f"course of {len(sources)} checkpoints", len(sources), quiet=not progress) as bar:
        # steps that the course has come first: they show whether it is the same training
        for step in sorted(sources, key=lambda number: (number not in surveyed, number)):
            name, revision = sources[step]
            options: dict[str, Any] = {**(loading or {}), **({} if revision is None else {"revision": revision})}
            try:
                model = load(name, **options)
            except ModelError as error:
                first_error = first_error or error
                warn(f"Step {step} is left out: {error}")
                continue
            begun = _first_log(name)
            _warn_of_another_step(name, step, revision)
            if about is None:
                with noting() as remarks:
                    about, first_begun = description(request.plan(model, source)), begun
                first_config, first_adapters = model.hf.config, adapters_of(model.hf)
                first_adapter = model.adapter
                stored = read_about(folder)
                if stored is None:  # what a claim writes into it would be this training's own evidence
                    _require_same_training(folder, sources, begun, None)
                claim_course(folder, about, {FIRST_LOG: begun}, takes_in=False)
                if stored is not None:
                    _require_same_training(folder, sources, begun, stored.get(TRAINING))
            elif None not in (begun, first_begun) and begun != first_begun:
                warn(f"Step {step} is left out: its training began otherwise than the first's ({begun}).")
                continue
            elif differs := shape_text(model, about["model"]):
                warn(f"Step {step} is left out: {differs}.")
                continue
            elif other_base := _other_base(first_adapter, model.adapter):
                warn(f"Step {step} is left out: {other_base}.")
                continue
            elif config_hash(model.hf) != about[CONFIGURATION]:
                warn(f"Step {step} is left out: {_other_settings(first_config, first_adapters, model)}.")
                continue
            elif _read_hash(model, source, remarks, seed, reading) != about["prompts"]["hash"]:
                warn(f"Step {step} is left out: its tokenizer makes other tokens of the prompts than the first's.")
                continue
            # every step reads the same prompts
            with leaving_out(remarks):
                survey(model, source, names, out=run_folder(folder, step), seed=seed, progress=False, **reading)
            note_step(folder, step)
            bar.advance(1)
    if about is None and first_error is not None and not finished_runs(folder):
        raise ModelError(f"None of the {len(sources)} checkpoints can be surveyed: {first_error}") from first_error
    return open_course(folder)


def _read_hash(
    model: Model, source: Source | Prompts, remarks: Set[Remark], seed: int, reading: Mapping[str, Any]
) -> str:
    """Return the hash of the prompts as a step reads them, before it is surveyed on tokens of its own."""
    with leaving_out(remarks):
        return tokenized(model, source, seed=seed, **reading).hash


def _other_settings(first: PreTrainedConfig | None, first_adapters: str | None, model: Model) -> str:
    """Return in words which settings of a model are not the first's; they would change its depth without training."""
    entries = {} if first is None else configuration_difference(first, model.hf.config)
    values = [f"{name} {theirs!r:.40}, the first's {ours!r:.40}" for name, (ours, theirs) in entries.items()]
    if not values:
        return _other_adapters(first_adapters, adapters_of(model.hf))
    more = f"; {len(values) - _FIRST_FEW} more" if len(values) > _FIRST_FEW else ""
    return f"its configuration is another than the first's ({'; '.join(values[:_FIRST_FEW])}{more})"


def _other_base(first: Adapter | None, adapter: Adapter | None) -> str:
    """Return in words that two adapters are of different models; empty where they are not, or are no adapters."""
    if first is None or adapter is None or _base_of(first) == _base_of(adapter):
        return ""
    return (
        f"it is an adapter of {_base_text(adapter)}, and the first's is of {_base_text(first)}. If they are one model, "
        "say which for both (loading={'base': …}, --base)"
    )


def _base_of(adapter: Adapter) -> tuple[str, str | None]:
    """Return which model an adapter belongs to, however its path is written."""
    folder = Path(adapter.base).expanduser()
    return (str(folder.resolve()) if folder.is_dir() else adapter.base), adapter.base_revision


def _base_text(adapter: Adapter) -> str:
    return adapter.base if adapter.base_revision is None else f"{adapter.base} at {adapter.base_revision}"


def _other_adapters(first: str | None, adapters: str | None) -> str:
    """Return in words how adapters differ: by what each does, or else by where they are and how they are scaled."""
    if first != adapters:
        return f"its adapters: {adapters or 'none'}; the first's: {first or 'none'}"
    return f"its adapters ({adapters}) have another scaling than the first's, or are in other modules"


def _require_same_training(
    folder: Path,
    sources: Mapping[int, tuple[str, str | None]],
    begun: Mapping[str, float] | None,
    training: Any,
) -> None:
    """Refuse checkpoints that nothing shows to be of the training of the course that is there.

    It shows in a step that both have, whose weights ``survey`` compares; in the first log, which ``claim_course``
    compares; or in the place that they come from.

    Args:
        begun: the first log of the checkpoints' training.
        training: what the course tells of its own, before this call claims it and tells of this one.

    Raises:
        StoreError: with what helps.
    """
    stored = {step: finished_model(folder, step) for step in finished_runs(folder)}
    if not stored or stored.keys() & sources.keys():
        return
    if begun is not None and isinstance(training, dict) and training.get(FIRST_LOG) is not None:
        return
    places = {_place_of(model.name, None) for model in stored.values() if model is not None}
    if not places & {_place_of(*source) for source in sources.values()}:
        raise StoreError(
            f"{str(folder)!r} holds a course up to step {max(stored)}, and nothing shows that these checkpoints are of "
            "the same training. Give one that the course has as well (its weights are compared), or another folder "
            "(out=…)."
        )


def _place_of(name: str, revision: str | None) -> str:
    """Return where a checkpoint comes from: its name on the hub, or the folder around its own."""
    return name if revision is not None or not has_step(Path(name).name) else str(Path(name).resolve().parent)


def _first_log(checkpoint: str) -> dict[str, float] | None:
    """Return the first log of a checkpoint's training, which tells it from others; None where none is there."""
    try:
        state = _trainer_state(checkpoint)
        first: Mapping[str, Any] = next((entry for entry in state["log_history"] if "loss" in entry), {})
        return {name: float(first[name]) for name in ("step", "loss", "learning_rate") if name in first} or None
    # a name on the hub, or a checkpoint of another trainer
    except DAMAGED:
        return None


def _warn_of_another_step(checkpoint: str, step: int, revision: str | None) -> None:
    """Warn of a checkpoint whose trainer wrote another step than its name tells; slopes are over the name's."""
    try:
        trained = None if revision is not None else _trainer_state(checkpoint)["global_step"]
    # a name on the hub, or a checkpoint of another trainer
    except DAMAGED:
        return
    if isinstance(trained, int) and trained != step:
        warn(
            f"{checkpoint!r} is taken for step {step}, as its name says, and its {_STATE} says global_step {trained}. "
            f"If it was renamed by mistake, name it checkpoint-{trained} and give another folder (out=…, --out …)."
        )


def _trainer_state(checkpoint: str) -> Any:
    return read_json(read_text(Path(checkpoint) / _STATE, Path(checkpoint)))


def _checkpoints(
    checkpoints: str | Path | Sequence[str | Path], revisions: Sequence[str]
) -> dict[int, tuple[str, str | None]]:
    """Return each step's folder, or name and revision."""
    if revisions:
        if not isinstance(checkpoints, str):
            raise OptionError("revisions are those of one model on the hub; give its name alone.")
        return _by_step_of(((revision, (checkpoints, revision)) for revision in revisions), "revision")
    if isinstance(checkpoints, str | Path):
        place = folder_path(checkpoints, "checkpoints")
        folders = _checkpoints_in(place)
    elif not isinstance(checkpoints, Iterable):
        raise OptionError(
            f"checkpoints={describe_value(checkpoints)} is no folder. Give the folder that holds checkpoint-STEP "
            "folders, or a list of these."
        )
    else:
        require_no_dict(checkpoints, "checkpoints")
        folders = [folder_path(path, "checkpoints") for path in checkpoints]
        _refuse_several_trainings(folders)
    if not folders and not isinstance(checkpoints, str | Path):
        raise OptionError("No checkpoint given. Give the folder that holds checkpoint-STEP folders, or these folders.")
    if not folders and not place.is_dir():
        raise OptionError(f"There is no folder {str(checkpoints)!r}. Give the folder that holds the checkpoints.")
    if not folders:
        raise OptionError(
            f"There is no checkpoint-STEP in {str(checkpoints)!r}. Give the folder that holds the checkpoints."
        )
    return _by_step_of(((path.name, (str(path), None)) for path in folders), "checkpoint")


def _checkpoints_in(place: Path) -> list[Path]:
    """Return the folders inside a place whose names are meant to tell a step; none where it is no folder."""
    folders: list[Path] = sorted(place.glob("*")) if place.is_dir() else []
    # a trainer may write a checkpoint under a passing name, and give it its own when it is whole
    return [
        path for path in folders if has_step(path.name) and path.is_dir() and not path.name.startswith(("tmp", "."))
    ]


def _refuse_several_trainings(folders: Sequence[Path]) -> None:
    """Refuse a list with a folder that is no checkpoint and holds some.

    Raises:
        OptionError: with the first of them.
    """
    for folder in folders:
        inner = [] if has_step(folder.name) else [path.name for path in _checkpoints_in(folder)]
        if inner:
            listed = written_out(inner) if len(inner) <= _FIRST_FEW else f"{inner[0]} and {len(inner) - 1} more"
            raise OptionError(
                f"{str(folder)!r} is no checkpoint; it holds {listed}. Give that folder alone, as one training, or "
                f"list the checkpoints themselves ({folder / inner[0]} …)."
            )


def _by_step_of(named: Iterable[tuple[str, tuple[str, str | None]]], kind: str) -> dict[int, tuple[str, str | None]]:
    """Return sources by the step in their names.

    Raises:
        OptionError: as ``step_of``, or two of one step.
    """
    sources: dict[int, tuple[str, str | None]] = {}
    for name, source in named:
        step = step_of(name, kind)
        if step in sources:
            raise OptionError(f"Two {kind}s are of step {step}: {sources[step][0]} and {source[0]}. Give one of them.")
        sources[step] = source
    return sources

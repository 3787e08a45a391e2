"""``survey``: the request is checked and planned, and this process or workers elsewhere carry it out."""

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bathyscope.core.bundles import names_in, read_bundle
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress, ResumeCommand
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.paths import require_writable
from bathyscope.core.repeated import leaving_out, noting
from bathyscope.core.write_bound import WriteBound
from bathyscope.errors import OptionError, StoreError, did_you_mean, warn
from bathyscope.measures.registry import MEASURES
from bathyscope.model import AnyModel, Model, alone, load, loaded
from bathyscope.model.memory import as_bytes
from bathyscope.model.options import require_loading
from bathyscope.model.ranks import is_first, of_first, size
from bathyscope.model.tensor_parallel import over_ranks
from bathyscope.model.writing import OF_WRITTEN, writing_of
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import require_there
from bathyscope.runs.folder import folder_path, refuse_foreign
from bathyscope.runs.manifest import RUN, Identity, load_manifest
from bathyscope.runs.opening import controls_in
from bathyscope.runs.parts import Part
from bathyscope.runs.run import Run
from bathyscope.runs.stored_run import CONTROLS, control_folders
from bathyscope.runs.writer import with_note
from bathyscope.schedule import Schedule, require_form
from bathyscope.surgery.order.model_of_plan import loaded_for
from bathyscope.surgery.scheduled.bounding import bounded, take_largest
from bathyscope.surgery.scheduled.copying import reordered
from bathyscope.surveying.asking import Measures, Survey
from bathyscope.surveying.controls import Control, controls_of
from bathyscope.surveying.cutting import EarlierCut
from bathyscope.surveying.distributed.driving import survey_by_workers
from bathyscope.surveying.execution import carry_out
from bathyscope.surveying.options import BUNDLES, GrowthOptions, SurveyOptions, WorkerOptions, WritingOptions
from bathyscope.surveying.until import NEEDED, Goal, seconds_of

_WORKER_TIMEOUT = 3600.0
_OF_LOADING = frozenset(inspect.signature(load).parameters) - {"model"}


@takes(SurveyOptions, bundles=BUNDLES)
@over_ranks
def survey(
    model: AnyModel,
    prompts: Source | Prompts,
    measures: Measures = None,
    out: str | Path | None = None,
    seed: int | None = None,
    batch_tokens: int | None = None,
    preset: str | None = None,
    *,
    memory: str | int | None = None,
    call_tokens: int | None = None,
    control: str | Sequence[str] | None = None,
    schedule: Schedule | str | None = None,
    bound: str | None = None,
    growing: GrowthOptions | Mapping[str, Any] | None = None,
    writing: WritingOptions | Mapping[str, Any] | None = None,
    placement: WorkerOptions | Mapping[str, Any] | None = None,
    loading: Mapping[str, Any] | None = None,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    keep_text: bool = True,
    progress: Progress = True,
    command: ResumeCommand = None,
    **options: Any,
) -> Run:
    """Measure how a model uses its depth on some prompts.

    Args:
        model: what ``load`` returns or takes, measured with the weights that it has now. Threads that survey one
            model wait for each other.
        prompts: a source text (``gsm8k:10``, ``stories.txt:100``), a list of texts, ``Prompt`` objects or
            token-id lists, a ``PromptSet``, or the ``prompts`` of a run.
        measures: names, ``"all"``, or None for residual, lens, skip, drop, tokens and effective_depth (or the
            preset's); also classes derived from ``bathyscope.measures.base.Measure``, and instances of them.
        ...: the options of ``SurveyOptions``.
        control: They are ``run.controls``.
        until: ``run.stopped`` says why it ended.
        loading: arguments of ``load`` for a model given by its name, such as ``{"dtype": "bfloat16"}``.
        keep_text: ``run.prompts`` holds it.
        **options: a measure's options under its name, as a dict or its options class.

    Returns:
        The run: ``run["skip"].effect_future`` is a labelled array. Of a part: what is there of it, without results
        that are derived from all prompts.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done; raised before any compute.
        StoreError: the folder belongs to another configuration, is altered, or cannot be written.

    Example:
        >>> texts = ["The old house stood at the edge of the village.", "A light was seen."]
        >>> run = bathyscope.survey("model", texts, ["lens", "drop"])
        >>> dict(run["drop"].loss.sizes)
        {'prompt': 2, 'dropped': 4}
    """
    _require_survey_options(options)
    growth = read_bundle(GrowthOptions, growing, "growing")
    written = read_bundle(WritingOptions, writing, "writing")
    computing = read_bundle(WorkerOptions, placement, "placement")
    engine = computing.engine
    if size() > 1:
        _require_possible_on_ranks(until=growth.until, grow=growth.grow or None, engine=engine)
        progress = progress and is_first()
    controls = controls_of(control)
    share = None if growth.part is None else Part.parse(growth.part)
    folder = None if out is None else folder_path(out, "out")
    require_loading(loading)
    if isinstance(schedule, str):
        require_form(schedule)  # of several kinds of values the check of types looks at none
    if loading and not isinstance(model, str | Path):
        raise OptionError("loading= is for a model given by its name or folder; this one is loaded already.")
    budget = None if growth.budget is None else seconds_of(growth.budget)
    goal = None if growth.until is None else Goal(growth.until, budget)
    if folder is not None and (growth.grow or goal is not None):
        _require_growing_controls(folder, {entry.label for entry in controls})
    continuation = writing_of(written.write, written.temperature, seed or 0)
    request = Survey(
        measures=measures,
        seed=seed,
        batch_tokens=batch_tokens,
        before=of_first(lambda: _cut_of(folder)),
        # parts and workers are cut alike wherever they are planned, and ranks by what none of their clocks says
        measures_pace=folder is not None and share is None and engine is None and size() == 1,
        preset=preset,
        memory=None if memory is None else as_bytes(memory),
        call_tokens=call_tokens,
        beyond_context=beyond_context,
        add_special_tokens=add_special_tokens,
        chat=chat,
        keep_text=keep_text,
        options=options,
        defaults={} if continuation is None else OF_WRITTEN,
    )
    if goal is not None:
        _require_readings(request.declared)
    require_there(prompts)
    if folder is not None and is_first():
        refuse_foreign(folder, RUN)
        require_writable(folder, holds="a run")
    if engine is not None:
        with ended_as_interrupted():
            return survey_by_workers(
                request,
                model,
                prompts,
                out,
                controls,
                loading=loading or {},
                workers=computing.workers,
                address=computing.address,
                timeout=_WORKER_TIMEOUT if computing.worker_timeout is None else computing.worker_timeout,
                command=command,
                progress=progress,
            )
    with alone(model), ended_as_interrupted(), ExitStack() as surveyed:
        ready = load(str(model), **loading) if loading else model
        if schedule is not None:
            ready = reordered(loaded_for(schedule, ready), schedule)
        if bound is not None:
            ready = bounded(loaded(ready), bound)
            surveyed.enter_context(_telling_of_no_effect(ready, bound))
        survey_some = partial(
            _survey_with_controls,
            request,
            ready,
            controls=controls,
            folder=folder,
            command=command,
            progress=progress,
            part=share,
        )
        if goal is None and continuation is None:
            return survey_some(prompts, grow=growth.grow)
        read = request.read(ready, prompts)
        if continuation is not None:
            read = continuation.continued(loaded(ready), read, progress=progress)
        if goal is None:
            return survey_some(read, grow=growth.grow)
        assert folder is not None
        run, ending = goal.run(read, partial(survey_some, grow=True), _prompts_in(folder))
        return replace(run, manifest=with_note(folder, "until", ending.record()))


@contextmanager
def _telling_of_no_effect(model: Model, bound: str) -> Iterator[None]:
    """Say at the end that a bound was above every number that blocks wrote; nothing of a run that was only read."""
    yield
    share = take_largest(model)
    if share is not None and share <= 1:
        limit = WriteBound.parse(bound).value
        warn(
            f"bound={bound} (--bound) changes nothing: the largest number that blocks write into the stream "
            f"is {share * limit:.3g}. Give a smaller bound, or leave it out."
        )


def _survey_with_controls(
    request: Survey,
    model: AnyModel,
    prompts: Source | Prompts,
    *,
    controls: Sequence[Control],
    folder: Path | None,
    command: str | None,
    progress: bool,
    part: Part | None,
    grow: bool,
) -> Run:
    """Survey a model on some prompts, and each control in the same way."""
    request = replace(request, before=of_first(lambda: _cut_of(folder)))
    with noting() as remarks:
        plan = request.plan(model, prompts)
    # before the first one is surveyed, which may take hours
    of_first(lambda: [] if folder is None else control_folders(folder))
    if part is not None:
        from bathyscope.surveying.distributed.joining import require_joinable

        require_joinable(Identity.from_mapping(plan.identity()))
    for control in controls:
        control.require(plan.model)
        control.require_prompts(plan.prompts)
    run = carry_out(plan, folder, command, progress, part, grow)
    # those that are asked for are read when their own folders are whole again
    asked_for = {control.label for control in controls}
    control_runs = of_first(
        lambda: {} if folder is None or part is not None else controls_in(folder, besides=asked_for)
    )
    # controls are cut as the run is, whatever their own rates
    request = replace(request, before=EarlierCut.of(Identity.from_mapping(plan.identity())))
    for control in controls:
        # a control reads the same prompts
        with leaving_out(remarks):
            control_plan = replace(
                request.plan(*control.of(plan.model, plan.prompts)), control=control.note(plan.model)
            )
        place = None if folder is None else folder / CONTROLS / control.label
        control_runs[control.label] = carry_out(control_plan, place, command, progress, part, grow)
    return replace(run, controls=control_runs)


def _require_possible_on_ranks(**asked_for: object) -> None:
    """Refuse what a survey on several ranks cannot do: what it decides again and again by a clock or by old files."""
    for option, value in asked_for.items():
        if value is not None:
            raise OptionError(
                f"{option}={value!r} does not go together with a model that is split over ranks. Survey all prompts at "
                f"once, or load the model whole (without tensor_parallel)."
            )


def _require_readings(measures: Collection[str]) -> None:
    """Refuse a survey until it is sure that could not tell the readings of the verdict."""
    missing = [name for name in NEEDED if name not in measures]
    if missing:
        raise OptionError(
            f"until needs the measures {' and '.join(NEEDED)}; not asked for: {', '.join(missing)}. Add what is "
            "missing (--measures), or leave until out."
        )


def _prompts_in(folder: Path | None) -> int:
    """Return how many prompts the run in a folder has; 0 without a run."""
    if folder is None or not (folder / RUN.manifest).exists():
        return 0
    return load_manifest(folder).identity.prompts


def _require_survey_options(options: Mapping[str, Any]) -> None:
    """Refuse arguments of ``load`` among those of a survey, where they would pass for options of a measure."""
    misplaced = next((name for name in options if name in _OF_LOADING), None)
    if misplaced is not None:
        raise OptionError(
            f"survey() has no option {misplaced!r}, which is one of load(): give loading={{{misplaced!r}: …}} with a "
            f"model's name, or the model as load(model, {misplaced}=…) returns it."
        )
    parameters = [*inspect.signature(survey).parameters, *names_in(BUNDLES)]
    for name, value in options.items():
        near = did_you_mean(name, [*MEASURES, *parameters])
        # a measure's options are a dict or an instance of its class; a plain value is an argument that is misspelt
        if isinstance(value, str | int | float) and any(near.endswith(f" {argument!r}?") for argument in parameters):
            raise OptionError(f"survey() has no option {name!r}.{near} See help(bathyscope.survey).")


def _require_growing_controls(folder: Path, controls: set[str]) -> None:
    """Refuse to grow a run with controls that would stay as they are."""
    left = sorted({path.name for path in control_folders(folder)} - controls)
    if left:
        raise OptionError(
            f"The run in {str(folder)!r} has controls that would not grow with it: {', '.join(left)}. Ask for them too "
            "(control=..., --control ...)."
        )


def _cut_of(folder: Path | None) -> EarlierCut | None:
    """Return how the run in a folder was cut, by which it goes on; None where there is no run."""
    if folder is None or not (folder / RUN.manifest).exists():
        return None
    try:
        return EarlierCut.of(load_manifest(folder).identity)
    # an unreadable manifest is refused where the run is opened
    except StoreError:
        return None

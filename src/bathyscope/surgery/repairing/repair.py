"""``repair``: what a model loses by dropped blocks, and how much of it cheap changes of the others bring back.

The rung that is written is chosen on calibration prompts that no map was fitted to and no training saw, and proved on
the test prompts. Doing nothing is a rung as well: maps and training may fit their own prompts and lose on others.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.paths import require_writable
from bathyscope.core.strict import read_json
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, OptionError, PromptError, describe_value
from bathyscope.model import Model, ModelArgument, alone, loaded
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.reading import PromptReading
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.reading import READING, recorded_reading
from bathyscope.prompts.samples import require_others
from bathyscope.prompts.source import require_there
from bathyscope.runs.folder import folder_path
from bathyscope.schedule import Schedule
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.checkpoint.exportable import require_plain
from bathyscope.surgery.checkpoint.folder import schedule_for
from bathyscope.surgery.checkpoint.source import source_of
from bathyscope.surgery.options import How, RepairOptions
from bathyscope.surgery.order.model_of_plan import chosen_by, in_its_precision, require_same_model
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.repairing.cuts import cuts_of
from bathyscope.surgery.repairing.healing import Budget
from bathyscope.surgery.repairing.ladder import RATE, climb_ladder
from bathyscope.surgery.repairing.repaired import Repaired
from bathyscope.surgery.trial.domains import require_calibration
from bathyscope.surgery.trial.trial import Trial, read_trial


@takes(RepairOptions)
def repair(
    model: ModelArgument,
    schedule: Schedule | str | Plan,
    calibration: Source | Prompts,
    *,
    test: Source | Prompts,
    how: How = "linear",
    tokens: int | None = None,
    minutes: float | None = None,
    clock: Callable[[], float] | None = None,
    rate: float | None = None,
    state: str | Path | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: Progress = True,
) -> Repaired:
    """Make up for dropped blocks by changing the weights of those next to the cuts.

    One ladder, every rung measured on the test prompts: "none"; "scale", what the MLP before a cut adds times a number;
    "linear", times a matrix, the least-squares map that brings the stream nearest to what the whole model hands to the
    block behind the cut; both are folded into the weights of that MLP and cost nothing. "heal" trains the blocks next
    to the cuts, from the map on, to give the whole model's predictions. The repaired model is the rung that costs least
    on calibration prompts that were kept aside; it is written only where the test prompts prove that it beats "none".

    Args:
        schedule: which blocks are dropped, such as ``"drop:2,drop:5"``, or the plan that ``prune`` made.
        calibration: prompts that maps and training see, as for ``survey``; a tenth, or of few a quarter, is kept
            aside to choose the rung.
        test: other prompts, that the rungs are measured on.
        ...: the options of ``RepairOptions``.
        clock: gives the seconds that minutes are made of, such as ``time.process_time`` on a busy machine; None = the
            time that passes.

    Returns:
        The rungs, which of them is ``chosen`` and whether that is ``proved``, and the repaired model, which
        ``.export(folder)`` writes.

    Raises:
        PruningError: a plan in which no block can go.
        OptionError: a schedule without a cut that could be repaired, or a budget without healing (or none with it);
            an option out of its range.
        PromptError: too few prompts, or a prompt in both sets, a test prompt among those that chose a plan's blocks,
            or a plan's own prompts whose file was changed since.
        ModelError: an order that cannot be exported; no matrix that a map could be folded into; a streamed model, or
            one whose predictions are not finite, before or after healing.
        StoreError: ``state`` holds another training, is damaged, is used by another process, or cannot be written.

    Example:
        >>> fixed = bathyscope.repair("model", "drop:1", "prompts.jsonl", test="test.jsonl", how="scale", resamples=100)
        >>> [rung.name for rung in fixed.rungs]
        ['none', 'scale']
        >>> fixed.chosen in ("none", "scale"), fixed.proved in (True, False)
        (True, True)
    """
    with alone(model):
        budget = require_budget(how, tokens, minutes)
        require_clock(clock, minutes)
        folder = None if state is None else folder_path(state, "state")
        if folder is not None:
            require_writable(folder, holds="the state of a training", option="state=..., --state ...")
        require_calibration(calibration)
        for prompts in (calibration, test):
            require_there(prompts)
        whole = in_its_precision(schedule, model) if isinstance(schedule, Plan) else loaded(model)
        if isinstance(schedule, Plan):
            schedule.as_schedule()
            require_same_model(schedule, whole)
        chosen = require_repairable(whole, schedule)
        trial = read_trial(
            whole,
            test,
            calibration,
            sampling=Sampling(resamples, level, seed),
            cluster=cluster,
            reading=PromptReading(beyond_context, add_special_tokens, chat),
            folder=folder,
        )
        if isinstance(schedule, Plan):
            require_others(chosen_by(schedule), trial.test, schedule.left_out)
            reading = {"add_special_tokens": add_special_tokens, "chat": chat}
            _require_unchanged(schedule, trial, {"calibration": calibration, "test": test}, {**reading, "seed": seed})
        with evaluating(whole.hf):
            return climb_ladder(
                trial,
                chosen,
                how,
                budget=budget,
                rate=RATE if rate is None else rate,
                progress=progress,
                clock=time.monotonic if clock is None else clock,
            )


def _require_unchanged(plan: Plan, trial: Trial, sources: Mapping[str, object], reading: Mapping[str, object]) -> None:
    """Refuse prompts from where a plan has its own, which say something else by now.

    Args:
        sources: what was given, by role; sources that are not the plan's are other prompts on purpose.
        reading: how they were read, and with which seed; otherwise than the plan's they are others on purpose as well.

    Raises:
        PromptError: with the role, the source and what helps.
    """
    attrs = plan.data.attrs
    record = recorded_reading(read_json(str(attrs.get(READING, "{}"))))
    if reading != {"add_special_tokens": True, "chat": False, **record, "seed": attrs.get("seed")}:
        return
    changed = {
        "calibration": chosen_by(plan) not in (frozenset(), trial.chosen_by),
        # tokens that end answers, and labels of domains, are in the plan's hash and not in this one
        "test": not {"test_ended", "domain"} & {*attrs, *plan.data.dims}
        and attrs.get("test_hash", trial.test.hash) != trial.test.hash,
    }
    for role, source in sources.items():
        plain = str(source) if isinstance(source, Path) else source
        # Lists of arrays have no equality, and are of no source.
        is_named = isinstance(plain, str) or (isinstance(plain, list) and all(isinstance(row, dict) for row in plain))
        if changed[role] and is_named and plain == plan.source(role):
            raise PromptError(
                f"The {role} prompts, {elided(repr(plain), 240)}, are others now than when {plan.left_out} "
                "was chosen, so that the plan says nothing of them. Restore the file, prune again, or give the model "
                f"and its blocks in place of the plan: MODEL, {plan.left_out!r} (--schedule {plan.left_out})."
            )


def require_clock(clock: object, minutes: float | None) -> None:
    """Refuse a clock that is none, or that nothing is counted by.

    Raises:
        OptionError: it cannot be called, or there is no budget in minutes.
    """
    if clock is not None and not callable(clock):
        raise OptionError(f"clock={describe_value(clock)} cannot be called; give one, such as time.process_time.")
    if clock is not None and minutes is None:
        raise OptionError("clock counts minutes, and none are given; give minutes=10, or leave clock out.")


def require_repairable(whole: Model, schedule: Schedule | str | Plan) -> Schedule:
    """Return the schedule, where weights next to its cuts could make up for what is dropped.

    Raises:
        OptionError: a schedule without a cut that could be repaired.
        ModelError: a streamed model, or one that cannot be exported.
    """
    if whole.placement == "stream":
        raise ModelError(
            f"repair needs the weights of {whole.name} in memory, and its blocks are streamed; load it with "
            "placement='resident'."
        )
    if whole.anatomy.loops is not None:
        raise ModelError(
            f"repair changes the weights next to a cut, and {whole.name} loops: each of its blocks shares them with "
            "its other runs. Train the looped model itself, with fewer loops or blocks."
        )
    require_plain(source_of(whole))
    chosen = schedule_for(schedule, whole.n_blocks)
    cuts_of(chosen)
    return chosen


def require_budget(how: str, tokens: int | None = None, minutes: float | None = None) -> Budget | None:
    """Return the budget of healing, None without it.

    Raises:
        OptionError: healing without one.
    """
    return Budget(tokens, minutes) if how == "heal" else None

"""The ladder of repairs: rungs are reached one after the other, and measured on prompts that fitted none of them."""

import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from bathyscope.core.progress import ProgressBar
from bathyscope.errors import ModelError, PromptError
from bathyscope.model import Model, load
from bathyscope.model.identity import identity_of
from bathyscope.prompts.parts import resampled
from bathyscope.prompts.prompts import Prompts
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.json_record import model_of
from bathyscope.surgery.options import How
from bathyscope.surgery.repairing.cuts import cuts_of, repaired_by_maps
from bathyscope.surgery.repairing.folder_locks import training_alone
from bathyscope.surgery.repairing.healing import Budget, heal, identified, require_own
from bathyscope.surgery.repairing.repaired import HEAL, NONE, Provenance, Repaired
from bathyscope.surgery.repairing.rungs import CALL_TOKENS, Climb, Ids, measured_rung
from bathyscope.surgery.scheduled.copying import ScheduledCopy
from bathyscope.surgery.trial.trial import Trial, model_record, prompts_record
from bathyscope.wavefront.batch import plan_batches

RUNGS: Final = (NONE, "scale", "linear", HEAL)
RATE: Final = 1e-3
"""Highest learning rate of healing."""
_SHARE_TO_CHOOSE: Final = 0.1
_ENOUGH_TO_CHOOSE: Final = 8
_FEWEST: Final = 4


def climb_ladder(
    trial: Trial,
    schedule: Schedule,
    how: How,
    *,
    budget: Budget | None = None,
    rate: float = RATE,
    progress: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Repaired:
    """Measure every rung up to the last one asked for.

    Args:
        trial: its folder stores the state of healing.
        how: the last rung.
        budget: of healing; None where nothing is trained.
        rate: highest learning rate of healing.
        clock: gives the seconds of a budget of minutes.

    Raises:
        PromptError: too few calibration prompts.
        ModelError: a rung that cannot be had, where healing does not follow it; predictions that are not finite.
        StoreError: the folder holds another training, is damaged, is used by another process, or cannot be written.
    """
    assert trial.calibration is not None
    names = RUNGS[: RUNGS.index(how) + 1]
    fit, aside = _split_prompts(_ids_of(trial.calibration), trial.sampling.seed)
    identity = {} if budget is None else _training_identity(trial, schedule, fit, rate, budget)
    require_own(trial.folder, identified(identity))  # the maps before it take minutes
    with training_alone(trial.folder):
        climb = Climb(trial.model, schedule, _ids_of(trial.test), aside)
        why_not: dict[str, str] = {}
        for name in names[1:]:
            if name == HEAL:
                assert budget is not None
                copy = climb.last
                _heal_copy(trial, copy, fit, budget, rate, identity, progress, clock)
            else:
                try:
                    copy = _map_copy(trial.model, schedule, fit, aside, name)
                except ModelError as error:
                    # training needs no map to go on from, so that a ladder with it may skip this rung
                    if how != HEAL:
                        raise
                    why_not[name] = str(error)
                    continue
            climb.measure(name, copy, rate)
    rungs = tuple(
        replace(
            measured_rung(name, climb.test.get(name), climb.test[NONE], trial.sampling, why_not.get(name, "")),
            calibration_cost=climb.aside_cost(name),
        )
        for name in names
    )
    repaired = Repaired(schedule, rungs, _provenance(trial, how, rate, budget), trial.model)
    return replace(repaired, hf=climb.restore(repaired.chosen).hf, _changes=climb.changes[repaired.chosen])


def _provenance(trial: Trial, how: How, rate: float, budget: Budget | None) -> Provenance:
    """Return what a repair says of its model, prompts and settings."""
    settings: dict[str, Any] = {"how": how, "rate": rate, **trial.sampling.record}
    settings |= {} if trial.cluster is None else {"cluster": trial.cluster}
    if budget is not None:
        settings |= {"tokens": budget.tokens} if budget.tokens else {"minutes": budget.minutes}
    data: dict[str, dict[str, Any]] = {role: prompts_record(prompts) for role, prompts in trial.samples.items()}
    return Provenance(model_of(model_record(trial.model)), data, settings, resampled(trial.cluster))


def _map_copy(whole: Model, schedule: Schedule, fit: Ids, choose: Ids, name: str) -> ScheduledCopy:
    """Return a copy with a map folded in before every cut."""
    copy = ScheduledCopy(whole.hf, schedule, whole.anatomy.family)
    copy_model = load(copy.hf)
    repaired_by_maps(whole, copy, copy_model, _batch_by_length(fit), _batch_by_length(choose), scalar=name == "scale")
    return copy


def _heal_copy(
    trial: Trial,
    copy: ScheduledCopy,
    fit: Ids,
    budget: Budget,
    rate: float,
    identity: dict[str, Any],
    progress: bool,
    clock: Callable[[], float],
) -> None:
    """Train a copy as it is, and store the state of the training in the trial's folder."""
    bars: list[ProgressBar] = []

    def advance(share: float) -> None:
        # The first share is what an earlier training did, so that the pace is that of this one alone.
        if not bars:
            bars.append(ProgressBar("healing", 1.0, share, quiet=not progress))
        bars[0].advance_to(share)

    try:
        heal(
            trial.model.hf,
            copy,
            [cut.slot for cut in cuts_of(copy.schedule)],
            _batch_by_length(fit),
            budget,
            rate=rate,
            seed=trial.sampling.seed,
            folder=trial.folder,
            identity=identity,
            clock=clock,
            progress=advance,
        )
    finally:
        for bar in bars:
            bar.__exit__(*sys.exc_info())


def _ids_of(prompts: Prompts) -> list[list[int]]:
    return [list(prompt.ids) for prompt in prompts]


def _split_prompts(prompts: list[list[int]], seed: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return prompts that maps are fitted to, and those that their penalty and the rung are chosen by."""
    if len(prompts) < _FEWEST:
        raise PromptError(f"Repairing takes at least {_FEWEST} calibration prompts; {len(prompts)} given.")
    order = np.random.default_rng(seed).permutation(len(prompts))
    # a tenth of few prompts is one, which would choose the rung by chance
    aside = max(1, round(_SHARE_TO_CHOOSE * len(prompts)), min(_ENOUGH_TO_CHOOSE, len(prompts) // 4))
    return [prompts[place] for place in order[aside:]], [prompts[place] for place in order[:aside]]


def _batch_by_length(prompts: Ids) -> list[list[list[int]]]:
    """Return prompts of one length together."""
    batches = plan_batches([len(prompt) for prompt in prompts], 1, CALL_TOKENS, True)
    return [[list(prompts[place]) for place in batch] for batch in batches]


def _training_identity(
    trial: Trial, schedule: Schedule, fit: Sequence[Sequence[int]], rate: float, budget: Budget
) -> dict[str, Any]:
    """Return what a state must have been made with to be resumed."""
    return {
        "weights": trial.model.weight_hash,
        "configuration": identity_of(trial.model).configuration,
        "order": list(schedule.order),
        # training goes on from the maps, which earlier versions fitted otherwise
        "maps": "relative to the stream, all positions",
        "calibration": hashlib.sha256(repr(list(fit)).encode()).hexdigest(),
        "rate": rate,
        "seed": trial.sampling.seed,
        "tokens": budget.tokens,
        "minutes": budget.minutes,
    }

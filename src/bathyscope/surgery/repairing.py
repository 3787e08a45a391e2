"""``repair``: what a model loses by dropped blocks, and how much of it cheap changes of the others bring back.

The rung that is kept is chosen on calibration prompts that no map was fitted to and no training saw, and proved on the
test prompts. Doing nothing is a rung as well: maps and training may fit their own prompts and lose on others.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from bathyscope.core.progress import ProgressBar
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from bathyscope.model import AnyModel, Model, alone, config_hash, load, loaded
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.reading import tokenized
from bathyscope.options import Coverage, Resamples, checked
from bathyscope.prompts.parts import resampled
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import judging, require_apart
from bathyscope.prompts.source import Source
from bathyscope.runs.folder import FolderLock, folder_path, reason
from bathyscope.schedule import Schedule
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.copying import ScheduledCopy
from bathyscope.surgery.cuts import cuts_of, repaired_by_maps
from bathyscope.surgery.export_source import source_of
from bathyscope.surgery.healing import Budget, heal, identified, require_own
from bathyscope.surgery.options import How
from bathyscope.surgery.plan import Plan
from bathyscope.surgery.plan_export import in_its_precision, require_same_weights
from bathyscope.surgery.repaired import NONE, Repaired, Told
from bathyscope.surgery.rungs import CALL_TOKENS, Climb, Ids, measured_rung
from bathyscope.surgery.writing import require_plain, schedule_for
from bathyscope.wavefront.batch import plan_batches

RUNGS: tuple[str, ...] = (NONE, "scale", "linear", "heal")
_SHARE_TO_CHOOSE = 0.1
_ENOUGH_TO_CHOOSE = 8
_FEWEST = 4


@checked
def repair(
    model: AnyModel,
    schedule: Schedule | str | Plan,
    calibration: Source | Prompts,
    *,
    test: Source | Prompts,
    how: How = "linear",
    tokens: int | None = None,
    minutes: float | None = None,
    rate: float = 1e-3,
    state: str | Path | None = None,
    resamples: Resamples = 1000,
    level: Coverage = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Repaired:
    """Make up for dropped blocks by changing the weights of those next to the cuts.

    One ladder, every rung measured on the test prompts: "none"; "scale", what the MLP before a cut adds times a number;
    "linear", times a matrix, the least-squares map that brings the stream nearest to what the whole model hands to the
    block behind the cut; both are folded into the weights of that MLP and cost nothing. "heal" trains the blocks beside
    the cuts, from the map on, to give the whole model's predictions. The repaired model is the rung that costs least on
    calibration prompts that were kept aside; it is written only where the test prompts prove that it beats "none".

    Args:
        model: what ``load`` returns or takes.
        schedule: which blocks are dropped, such as ``"drop:2,drop:5"``, or the plan that ``prune`` made.
        calibration: prompts that maps and training see, as for ``survey``; a tenth, or of few a quarter, is kept
            aside to choose the rung.
        test: other prompts, that the rungs are measured on.
        how: the last rung of the ladder that is tried.
        tokens: budget of healing; the same command goes on where it was interrupted and ends in the same weights.
        minutes: budget of healing in time instead.
        rate: highest learning rate of healing.
        state: folder that an interrupted healing is resumed from.
        resamples: bootstrap resamples of the test prompts.
        level: coverage of the intervals.
        cluster: label of test prompts that belong together, such as document; they are resampled as one.
        seed: of the split of the calibration prompts, of the order of training, and of resampling.
        progress: show a progress bar on standard error when it takes long.

    Returns:
        The rungs, which of them is ``chosen`` and whether that is ``proved``, and the repaired model, which
        ``.export(folder)`` writes.

    Raises:
        PruningError: a plan in which no block can go.
        OptionError: a schedule without a cut that could be repaired, or a budget without healing (or none with it);
            an option out of its range.
        PromptError: too few prompts, or a prompt in both sets.
        ModelError: an order that cannot be exported; no matrix that a map could be folded into; a streamed model, or
            one whose predictions are not finite, before or after healing.
        StoreError: ``state`` holds another training, is damaged, is used by another process, or cannot be written.

    Example:
        >>> found = bathyscope.repair("model", "drop:1", "prompts.jsonl", test="test.jsonl", how="scale", resamples=100)
        >>> [rung.name for rung in found.rungs]
        ['none', 'scale']
        >>> found.chosen in ("none", "scale"), found.proved in (True, False)
        (True, True)
    """
    with alone(model):
        budget = require_budget(how, tokens, minutes, state)
        if not 0 < rate < inf:
            raise OptionError(f"rate={rate:g} is out of range; give a learning rate above 0, such as 1e-3.")
        whole = in_its_precision(schedule, model) if isinstance(schedule, Plan) else loaded(model)
        if isinstance(schedule, Plan):
            schedule.as_schedule()
            require_same_weights(schedule, whole)
        with evaluating(whole.hf):
            return ladder(
                whole,
                schedule,
                calibration,
                test,
                how,
                budget,
                rate,
                state,
                Sampling(resamples, level, seed),
                progress,
                cluster=cluster,
            )


def ladder(
    whole: Model,
    schedule: Schedule | str | Plan,
    calibration: Source | Prompts,
    test: Source | Prompts,
    how: How,
    budget: Budget | None,
    rate: float,
    state: str | Path | None,
    sampling: Sampling,
    progress: bool,
    clock: Callable[[], float] = time.monotonic,
    cluster: str | None = None,
) -> Repaired:
    """As ``repair``; ``clock`` gives the seconds of a budget of minutes."""
    if whole.placement == "stream":
        raise ModelError(
            f"repair needs the weights of {whole.name} in memory, and its blocks are streamed; load it with "
            "placement='resident'."
        )
    require_plain(source_of(whole))
    chosen = schedule_for(schedule, whole.n_blocks)
    cuts_of(chosen)
    seed = sampling.seed
    known, unseen = tokenized(whole, calibration, seed=seed), judging(tokenized(whole, test, seed=seed))
    require_apart(known, unseen)
    if cluster is not None:
        sampling = replace(sampling, cluster=unseen.clusters(cluster))
    fit, aside = _split([list(prompt.ids) for prompt in known], seed)
    place = None if state is None else folder_path(state, "state")
    training = {} if budget is None else _identity(whole, chosen, fit, rate, seed, budget)
    require_own(place, identified(training))  # the maps before it take minutes
    with _alone_in(place):
        climb = Climb(whole, chosen, [list(prompt.ids) for prompt in unseen], aside)
        why_not: dict[str, str] = {}
        for name in RUNGS[1 : RUNGS.index(how) + 1]:
            if name == "heal":
                assert budget is not None
                copy = climb.last
                _healed(whole, copy, fit, budget, rate, seed, (place, training), progress, clock)
            else:
                try:
                    copy = _mapped(whole, chosen, fit, aside, name)
                except ModelError as error:
                    if how != "heal":
                        raise
                    why_not[name] = str(error)
                    continue
            climb.measure(name, copy, rate)
    rungs = tuple(
        replace(
            measured_rung(name, climb.test.get(name), climb.test[NONE], sampling, why_not.get(name, "")),
            calibration_cost=climb.aside_cost(name),
        )
        for name in RUNGS[: RUNGS.index(how) + 1]
    )
    settings: dict[str, Any] = {"how": how, "rate": rate, **sampling.record}
    settings |= {} if cluster is None else {"cluster": cluster}
    if budget is not None:
        settings |= {"tokens": budget.tokens} if budget.tokens else {"minutes": budget.minutes}
    about = Told(_model(whole), {"calibration": _data(known), "test": _data(unseen)}, settings, resampled(cluster))
    repaired = Repaired(chosen, rungs, about, whole)
    return replace(repaired, hf=climb.restore(repaired.chosen).hf, _changes=climb.changes[repaired.chosen])


@contextmanager
def _alone_in(place: Path | None) -> Iterator[None]:
    """Keep other processes from training in the same folder.

    Raises:
        StoreError: another process does, or the folder cannot be written.
    """
    if place is None:
        yield
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(place, "training")
    except OSError as error:
        raise StoreError(
            f"The folder {str(place)!r} cannot hold the state of a training: {reason(error)}. Make it writable, or "
            "give another one (state=..., --state ...)."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _model(whole: Model) -> dict[str, Any]:
    """Return what a record says of the model."""
    return {
        "name": whole.name,
        "weight_hash": whole.weight_hash,
        "config_hash": config_hash(whole.hf),
        "precision": str(whole.dtype).removeprefix("torch."),
        "n_blocks": whole.n_blocks,
    }


def _data(prompts: Prompts) -> dict[str, Any]:
    """Return what a record says of some prompts."""
    return {"name": prompts.dataset, "hash": prompts.hash, "prompts": len(prompts), "tokens": sum(prompts.lengths)}


def _mapped(whole: Model, schedule: Schedule, fit: Ids, choose: Ids, name: str) -> ScheduledCopy:
    """A copy with a map folded in before every cut."""
    copy = ScheduledCopy(whole.hf, schedule, whole.anatomy.family)
    own = load(copy.hf)
    repaired_by_maps(whole, copy, own, _batched(fit), _batched(choose), scalar=name == "scale")
    return copy


def _healed(
    whole: Model,
    copy: ScheduledCopy,
    fit: Ids,
    budget: Budget,
    rate: float,
    seed: int,
    kept: tuple[Path | None, dict[str, Any]],
    progress: bool,
    clock: Callable[[], float],
) -> None:
    """Trains a copy as it is; ``kept`` is where its state is, and whose it has to be."""
    slots = [cut.slot for cut in cuts_of(copy.schedule)]
    bars: list[ProgressBar] = []

    def advance(share: float) -> None:
        """The first share is what an earlier training did, so that the pace is that of this one alone."""
        if not bars:
            bars.append(ProgressBar("healing", 1.0, share, quiet=not progress))
        bars[0].advance_to(share)

    try:
        heal(
            *(whole.hf, copy, slots, _batched(fit), budget),
            rate=rate,
            seed=seed,
            folder=kept[0],
            identity=kept[1],
            clock=clock,
            progress=advance,
        )
    finally:
        for bar in bars:
            bar.__exit__(*sys.exc_info())


def require_budget(
    how: str, tokens: int | None = None, minutes: float | None = None, state: str | Path | None = None
) -> Budget | None:
    """The budget of healing, None without it; refuses one that is not asked for, or none where one is."""
    if how == "heal":
        return Budget(tokens, minutes)
    if tokens is not None or minutes is not None:
        raise OptionError(f"how={how!r} trains nothing and takes no budget; leave tokens and minutes out.")
    if state is not None:
        raise OptionError(f"how={how!r} trains nothing and has no state; leave state out, or give how='heal'.")
    return None


def _split(prompts: list[list[int]], seed: int) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts that maps are fitted to, and those that their penalty is chosen by."""
    if len(prompts) < _FEWEST:
        raise PromptError(f"Repairing takes at least {_FEWEST} calibration prompts; {len(prompts)} given.")
    order = np.random.default_rng(seed).permutation(len(prompts))
    # a tenth of few prompts is one, which would choose the rung by chance
    aside = max(1, round(_SHARE_TO_CHOOSE * len(prompts)), min(_ENOUGH_TO_CHOOSE, len(prompts) // 4))
    return [prompts[place] for place in order[aside:]], [prompts[place] for place in order[:aside]]


def _batched(prompts: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """Prompts of one length together."""
    planned = plan_batches([len(prompt) for prompt in prompts], 1, CALL_TOKENS, True)
    return [[list(prompts[place]) for place in batch] for batch in planned]


def _identity(
    whole: Model, schedule: Schedule, fit: Sequence[Sequence[int]], rate: float, seed: int, budget: Budget
) -> dict[str, Any]:
    text = hashlib.sha256(repr(list(fit)).encode()).hexdigest()
    return {
        "weights": whole.weight_hash,
        "order": list(schedule.order),
        "calibration": text,
        "rate": rate,
        "seed": seed,
        "tokens": budget.tokens,
        "minutes": budget.minutes,
    }

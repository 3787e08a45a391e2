"""``repair``: what a model loses by dropped blocks, and how much of it cheap changes of the others bring back."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel

from bathyscope.core.arrays import IntArray
from bathyscope.core.progress import ProgressBar
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model import AnyModel, Model, alone, load, loaded
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.reading import tokenized
from bathyscope.options import Coverage, Resamples, checked
from bathyscope.prompts.parts import resampled
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.samples import judging, require_apart
from bathyscope.prompts.source import Source
from bathyscope.runs.folder import folder_path
from bathyscope.schedule import Schedule
from bathyscope.statistics.bootstrap import bootstrap_interval, cluster_weights, mean_interval, resample_counts
from bathyscope.statistics.least_squares import Array
from bathyscope.surgery.card import as_text, on_data
from bathyscope.surgery.copying import ScheduledCopy
from bathyscope.surgery.cuts import cuts_of, repaired_by_maps
from bathyscope.surgery.export_source import source_of
from bathyscope.surgery.exporting import require_plain, schedule_for, write_export
from bathyscope.surgery.healing import Budget, heal, identified, require_own
from bathyscope.wavefront.batch import plan_batches

How = Literal["scale", "linear", "heal"]
Ids = Sequence[Sequence[int]]
RUNGS: tuple[str, ...] = ("none", "scale", "linear", "heal")
_CALL_TOKENS = 2048
_LOGITS = 1 << 26
_SHARE_TO_CHOOSE = 0.1
_FEWEST = 4


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder, measured on the test prompts.

    Args:
        name: "none", "scale", "linear" or "heal".
        cost: mean over prompts of a token's loss above the whole model's, in nats, with the ends of its interval.
        recovered: share of the cost without repair that is gone, with the ends of its interval. NaN where dropping
            costs nothing on these prompts; the ends alone where that cannot be told from nothing.
        why_not: why this rung could not be had; empty where it was. All numbers are NaN then.
    """

    name: str
    cost: float
    cost_low: float
    cost_high: float
    recovered: float
    recovered_low: float
    recovered_high: float
    why_not: str = ""

    def shown(self, name: str, form: str) -> str:
        """``cost`` or ``recovered`` with its interval, as text; "–" for what there is not."""
        value, low, high = (getattr(self, f"{name}{end}") for end in ("", "_low", "_high"))
        if isnan(value):
            return "–"
        return format(value, form) + ("" if isnan(low) else f" ({low:{form}} to {high:{form}})")


@dataclass(frozen=True)
class Repaired:
    """A scheduled model whose remaining weights were changed to make up for what was dropped.

    Args:
        model: the whole model.
        schedule: the blocks that stay.
        rungs: the ladder, up to the last one asked for.
        hf: the repaired copy, a transformers model.
        data: which prompts it was repaired and measured on, and how sure that is, in Markdown.
    """

    model: Model
    schedule: Schedule
    rungs: tuple[Rung, ...]
    hf: PreTrainedModel
    _copy: ScheduledCopy
    data: str

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rungs as records."""
        return [vars(rung) for rung in self.rungs]

    def export(self, folder: str | Path) -> Path:
        """Writes the repaired copy as a plain checkpoint, with the ladder in its card.

        Raises:
            ModelError, StoreError: as ``bathyscope.export``.
        """
        lines = [self.data, "", "| repair | cost on test prompts, nats a token | recovered |", "|---|---|---|"]
        lines += [
            f"| {one.name} | {one.shown('cost', '.4f')} | {one.shown('recovered', '.0%')} |"
            for one in self.rungs
            if not one.why_not
        ]
        return write_export(
            source_of(self.model),
            self.schedule,
            folder_path(folder, "folder"),
            changes=self._copy.changes(),
            evidence="\n".join(lines),
        )


@checked
def repair(
    model: AnyModel,
    schedule: Schedule | str,
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
    """Makes up for dropped blocks by changing the weights of those beside the cuts.

    One ladder, every rung measured on the test prompts: "none"; "scale", what the MLP before a cut adds times a number;
    "linear", times a matrix, the least-squares map that brings the stream nearest to what the whole model hands to the
    block behind the cut; both are folded into the weights of that MLP and cost nothing. "heal" trains the blocks beside
    the cuts, from the map on, to give the whole model's predictions.

    Args:
        model: what ``load`` returns or takes.
        schedule: which blocks are dropped, such as ``"drop:2,drop:5"``.
        calibration: prompts that maps and training see, as for ``survey``.
        test: other prompts, that the rungs are measured on.
        how: the last rung of the ladder; the repaired model is what it gives.
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
        The rungs, and the repaired model, which ``.export(folder)`` writes.

    Raises:
        OptionError: a schedule without a cut that could be repaired, or a budget without healing (or none with it);
            an option out of its range.
        PromptError: too few prompts, or a prompt in both sets.
        ModelError: an order that cannot be exported; no matrix that a map could be folded into; a streamed model, or
            one whose predictions are not finite, before or after healing.
        StoreError: ``state`` holds another training, is damaged, or cannot be written.

    Example:
        >>> found = bathyscope.repair("model", "drop:1", "prompts.jsonl", test="test.jsonl", how="scale", resamples=100)
        >>> [rung.name for rung in found.rungs]
        ['none', 'scale']
        >>> found.export("repaired").name
        'repaired'
    """
    with alone(model):
        budget = require_budget(how, tokens, minutes, state)
        if not 0 < rate < inf:
            raise OptionError(f"rate={rate:g} is out of range; give a learning rate above 0, such as 1e-3.")
        whole = loaded(model)
        with evaluating(whole.hf):
            return ladder(
                *(whole, schedule, calibration, test, how, budget, rate, state, (resamples, level, seed), progress),
                cluster=cluster,
            )


def ladder(
    whole: Model,
    schedule: Schedule | str,
    calibration: Source | Prompts,
    test: Source | Prompts,
    how: How,
    budget: Budget | None,
    rate: float,
    state: str | Path | None,
    sampling: tuple[int, float, int],
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
    resamples, level, seed = sampling
    known, unseen = tokenized(whole, calibration, seed=seed), judging(tokenized(whole, test, seed=seed))
    require_apart(known, unseen)
    together = None if cluster is None else unseen.clusters(cluster)
    fit, choose = _split([list(prompt.ids) for prompt in known], seed)
    place = None if state is None else folder_path(state, "state")
    training = {} if budget is None else _identity(whole, chosen, fit, rate, seed, budget)
    require_own(place, identified(training))  # the maps before it take minutes
    judged = [list(prompt.ids) for prompt in unseen]
    base = losses(whole.hf, judged)
    _require_finite(base, "The whole model has", "load it with a wider dtype (dtype='float32')")
    copy = ScheduledCopy(whole.hf, chosen, whole.anatomy.family)
    costs: dict[str, Array] = {"none": losses(copy.hf, judged) - base}
    why_not: dict[str, str] = {}
    for name in RUNGS[1 : RUNGS.index(how) + 1]:
        if name == "heal":
            assert budget is not None
            _healed(whole, copy, fit, budget, rate, seed, (place, training), progress, clock)
        else:
            try:
                copy = _mapped(whole, chosen, fit, choose, name)
            except ModelError as error:
                if how != "heal":
                    raise
                why_not[name] = str(error)
                continue
        costs[name] = losses(copy.hf, judged) - base
        _require_finite(
            costs[name],
            f"Repaired by {name} (rate={rate:g}), the model has",
            "heal at a lower rate, with another state",
        )
    rungs = [
        _measured(name, costs.get(name), costs["none"], resamples, level, seed, why_not.get(name, ""), together)
        for name in RUNGS[: RUNGS.index(how) + 1]
    ]
    done = {"Repaired": known, "Measured": unseen}
    data = " ".join(on_data(did, own.dataset, len(own), sum(own.lengths)) for did, own in done.items())
    data += (
        f" In brackets: {100 * level:g} % intervals over {as_text(resampled(cluster))}. The weights are the last row's."
    )
    return Repaired(whole, chosen, tuple(rungs), copy.hf, copy, data)


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
    with ProgressBar("healing", 1.0, quiet=not progress) as bar:
        heal(
            *(whole.hf, copy, slots, _batched(fit), budget),
            rate=rate,
            seed=seed,
            folder=kept[0],
            identity=kept[1],
            clock=clock,
            progress=bar.advance_to,
        )


@torch.no_grad()
def losses(hf: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> Array:
    """Mean loss over the tokens of every prompt, in nats, [prompts]."""
    found = np.zeros(len(prompts))
    device = next(hf.parameters()).device
    room = max(1, min(_CALL_TOKENS, _LOGITS // hf.config.get_text_config().vocab_size))
    for picked in plan_batches([len(prompt) for prompt in prompts], 1, room, True):
        ids = torch.tensor([list(prompts[place]) for place in picked], device=device)
        logits = hf(ids, use_cache=False).logits[:, :-1].float()
        lost = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        found[list(picked)] = lost.view(len(picked), -1).double().mean(1).cpu().numpy()
    return found


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
    aside = max(1, round(_SHARE_TO_CHOOSE * len(prompts)))
    return [prompts[place] for place in order[aside:]], [prompts[place] for place in order[:aside]]


def _batched(prompts: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """Prompts of one length together."""
    planned = plan_batches([len(prompt) for prompt in prompts], 1, _CALL_TOKENS, True)
    return [[list(prompts[place]) for place in batch] for batch in planned]


def _require_finite(losses_P: Array, what: str, remedy: str) -> None:
    if not np.isfinite(losses_P).all():
        raise ModelError(f"{what} NaN or Inf predictions on the test prompts; {remedy}.")


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


def _measured(
    name: str,
    cost_P: Array | None,
    none_P: Array,
    resamples: int,
    level: float,
    seed: int,
    why_not: str,
    cluster: IntArray | None = None,
) -> Rung:
    if cost_P is None:
        return Rung(name, nan, nan, nan, nan, nan, nan, why_not)
    low, high = mean_interval(cost_P, resamples=resamples, level=level, seed=seed, cluster=cluster)
    if not none_P.mean() > 0:  # nothing was lost that could come back
        return Rung(name, float(cost_P.mean()), low, high, nan, nan, nan)
    recovered = float(1 - cost_P.mean() / none_P.mean())
    counts = resample_counts(len(cost_P), resamples, np.random.default_rng(seed), cluster)
    weights = cluster_weights(np.ones(len(cost_P)), cluster)
    if not (counts @ none_P > 0).all():
        return Rung(name, float(cost_P.mean()), low, high, recovered, nan, nan)
    drawn = 1 - (counts @ cost_P) / (counts @ none_P)
    ends = bootstrap_interval(recovered, drawn, weights, level=level, limits=(-np.inf, np.inf))
    return Rung(name, float(cost_P.mean()), low, high, recovered, *ends)

"""The rungs of a repair as they are reached: their copies, the weights that differ, and what they cost each prompt."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Final

import numpy as np
import torch
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.measures.costs import tree_costs
from bathyscope.model import Model
from bathyscope.model.anatomy.precision import widened
from bathyscope.schedule import Schedule
from bathyscope.statistics.bootstrap import bootstrap_interval, mean_interval
from bathyscope.statistics.least_squares import Array
from bathyscope.statistics.sampling import Sampling, cluster_weights
from bathyscope.surgery.repairing.repaired import HEAL, NONE, Rung
from bathyscope.surgery.scheduled.copying import ScheduledCopy
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Step, Tree
from bathyscope.wavefront.variants import SlotVariant

Ids = Sequence[Sequence[int]]
CALL_TOKENS: Final = 2048
_LOGITS: Final = 1 << 26
_USUAL: Final = Sampling()
_WIDER: Final = "load it with a wider dtype (dtype='float32')"


class Climb:
    """The rungs as they are reached: their copies, the weights that differ, and their costs by prompt.

    Args:
        whole: the whole model.
        schedule: the blocks that stay.
        test: prompts that prove.
        aside: calibration prompts that choose; maps and training do not see them.
    """

    def __init__(self, whole: Model, schedule: Schedule, test: Ids, aside: Ids) -> None:
        self._whole, self._test, self._aside = whole, test, aside
        self._base = losses(whole.hf, test), losses(whole.hf, aside)
        _require_finite(self._base[0], "The whole model has", _WIDER)
        self.test: dict[str, Array] = {}
        self.aside: dict[str, Array] = {}
        self.changes: dict[str, dict[str, torch.Tensor]] = {}
        self._copies: dict[str, ScheduledCopy] = {}
        self.measure(NONE, ScheduledCopy(whole.hf, schedule, whole.anatomy.family), 0.0)

    @property
    def last(self) -> ScheduledCopy:
        """The copy of the last rung that could be had, which training goes on from."""
        return list(self._copies.values())[-1]

    def measure(self, name: str, copy: ScheduledCopy, rate: float) -> None:
        """Take the costs of a rung, and keep its weights: training changes the copy of the rung before."""
        # The weights as they are now: training goes on in this same copy.
        self._copies[name], self.changes[name] = copy, copy.changes()
        self.test[name] = slot_losses(self._whole, copy, self._test) - self._base[0]
        self.aside[name] = slot_losses(self._whole, copy, self._aside) - self._base[1]
        if name == HEAL:
            what, remedy = f"Repaired by {name} (rate={rate:g})", "heal at a lower rate, with another state"
        else:
            what, remedy = f"Repaired by {name}", _WIDER
        _require_finite(self.test[name], f"{what}, the model has", remedy)

    def aside_cost(self, name: str) -> float:
        """Return the mean cost of a rung on the calibration prompts that were kept aside; NaN where it was not had."""
        return float(self.aside[name].mean()) if name in self.aside else nan

    def restore(self, name: str) -> ScheduledCopy:
        """Return the copy of a rung with the weights that it was measured with."""
        copy = self._copies[name]
        copy.restore(self.changes[name])
        return copy


@torch.no_grad()
def losses(hf: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> Array:
    """Return the mean loss over the tokens of every prompt, in nats, [prompts]."""
    loss_P = np.zeros(len(prompts))
    device = next(hf.parameters()).device
    # Logits of a large vocabulary, and not activations, are what fills the memory.
    room = max(1, min(CALL_TOKENS, _LOGITS // hf.config.get_text_config().vocab_size))
    for picked in plan_batches([len(prompt) for prompt in prompts], 1, room, True):
        ids = torch.tensor([list(prompts[place]) for place in picked], device=device)
        logits = widened(hf(ids, use_cache=False).logits[:, :-1])
        lost = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        loss_P[list(picked)] = lost.view(len(picked), -1).double().mean(1).cpu().numpy()
    return loss_P


def slot_losses(whole: Model, copy: ScheduledCopy, prompts: Sequence[Sequence[int]]) -> Array:
    """Return the mean loss over the tokens of every prompt under a repair, in nats, [prompts].

    The repair is a history of the whole model: the blocks of the schedule, where the slots whose weights the repair has
    changed hold the copy's modules.
    """
    changed = {copy.layout.place(name) for name in copy.changes()}
    order = copy.schedule.order
    variants = {str(slot): SlotVariant({order[slot]: copy.slots[slot]}) for slot in changed if slot is not None}
    history = tuple(Step(block, variant=str(slot) if slot in changed else "") for slot, block in enumerate(order))
    # Parameters outside of the blocks are those of both models, or the copy's forward is what tells.
    if None in changed:
        return losses(copy.hf, prompts)
    wave, tree = Wavefront(whole.anatomy, tails=False), Tree([history])
    loss_P = np.zeros(len(prompts))
    for picked in plan_batches([len(prompt) for prompt in prompts], 1, CALL_TOKENS, True):
        batch = Batch.of([prompts[place] for place in picked], whole.device)
        loss_P[list(picked)] = tree_costs(wave, batch, tree, variants=variants, refuses_nan=False)["loss"][0]
    return loss_P


def _require_finite(losses_P: Array, what: str, remedy: str) -> None:
    if not np.isfinite(losses_P).all():
        raise ModelError(f"{what} NaN or Inf predictions on the test prompts; {remedy}.")


def measured_rung(
    name: str, cost_P: Array | None, none_P: Array, sampling: Sampling = _USUAL, why_not: str = ""
) -> Rung:
    """Return a rung as the test prompts measure it; without numbers where it could not be had."""
    if cost_P is None:
        return Rung(name, why_not=why_not)
    rung = _measure_gain(name, cost_P, none_P, sampling)
    if not none_P.mean() > 0:  # nothing was lost that could come back
        return rung
    recovered = float(1 - cost_P.mean() / none_P.mean())
    counts = sampling.counts(len(cost_P))
    weights = cluster_weights(np.ones(len(cost_P)), sampling.cluster)
    # Where a resample of the prompts loses nothing, the share of it that is recovered has no meaning.
    if not (counts @ none_P > 0).all():
        return replace(rung, recovered=recovered)
    resampled = 1 - (counts @ cost_P) / (counts @ none_P)
    low, high = bootstrap_interval(recovered, resampled, weights, level=sampling.level, limits=(-np.inf, np.inf))
    return replace(rung, recovered=recovered, recovered_low=low, recovered_high=high)


def _measure_gain(name: str, cost_P: Array, none_P: Array, sampling: Sampling) -> Rung:
    """Return a rung with its cost, and with what it gains over no repair on the same prompts."""
    low, high = mean_interval(cost_P, sampling)
    gain_low, gain_high = mean_interval(none_P - cost_P, sampling)
    return Rung(
        name,
        float(cost_P.mean()),
        low,
        high,
        gain=float((none_P - cost_P).mean()),
        gain_low=gain_low,
        gain_high=gain_high,
    )

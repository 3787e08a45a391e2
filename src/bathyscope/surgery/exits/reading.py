"""What a plain forward over a continuation tells of every exit: the token it would draft, and how sure it is."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.arrays import BoolArray, FloatArray
from bathyscope.core.progress import ProgressBar
from bathyscope.model import Model
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView, FinalStates


@dataclass(frozen=True)
class Trace:
    """One continuation.

    Args:
        agrees: [exits, new tokens], the likeliest token after 1 … L − 1 blocks is the one that was generated.
        probability: [exits, new tokens], of that likeliest token.
        repeated: [new tokens], the whole model's likeliest token in this forward is the one that was generated: all,
            but for near ties, which calls of another shape may round the other way.
    """

    agrees: BoolArray
    probability: FloatArray
    repeated: BoolArray


def traces(model: Model, continued: list[TokenizedPrompt], progress: bool = True) -> list[Trace]:
    """Read every exit at the tokens that predict an answer, in one plain forward for each prompt.

    Args:
        continued: prompts whose answers are what the model has made of them.
    """
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    trace_by_place: dict[int, Trace] = {}
    lengths = [len(prompt) for prompt in continued]
    with ProgressBar("reading exits", len(continued), quiet=not progress) as bar:
        for places in plan_batches(lengths, 1, wave.policy.tokens, model.anatomy.equal_lengths):
            prompts = [continued[place] for place in places]
            probe = _ExitProbe(Batch.of([p.ids for p in prompts], model.device, [p.answer_tokens for p in prompts]))
            wave.run(probe.batch, [probe])
            trace_by_place.update(zip(places, probe.traces))
            bar.advance_to(len(trace_by_place))
    return [trace_by_place[place] for place in range(len(continued))]


class _ExitProbe(Probe):
    """Keeps what predicts the answers at each boundary, and reads it out at the end."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.batch = batch
        self.traces: list[Trace] = []
        self._states: list[Tensor] = []

    def baseline(self, view: BaselineView) -> None:
        # An exit before block 0 would predict from the embedding alone.
        if view.block:
            self._states.append(self.batch.answer_states(view.before_BTD))

    def finish(self, final: FinalStates) -> None:
        states = [*self._states, self.batch.answer_states(final.baseline_BTD)]
        # All boundaries are one long list of states, read out in slices that fit into memory.
        exits_ND, every_answer_N = torch.cat(states), self.batch.answer_ids_N.repeat(len(states))
        agrees_N = torch.empty(len(exits_ND), dtype=torch.bool, device=exits_ND.device)
        probability_N = torch.empty(len(exits_ND), dtype=torch.float64, device=exits_ND.device)

        def look(first: int, logits_NV: Tensor) -> None:
            tokens, distribution = slice(first, first + len(logits_NV)), Distribution(logits_NV)
            agrees_N[tokens] = distribution.top1 == every_answer_N[tokens]
            probability_N[tokens] = distribution.p1

        final.reader.read_in_slices(exits_ND, look)
        agrees, probability = (values.cpu().numpy().reshape(len(states), -1) for values in (agrees_N, probability_N))
        cuts = np.cumsum(self.batch.answer_counts)[:-1]
        by_prompt = zip(np.split(agrees, cuts, axis=1), np.split(probability, cuts, axis=1))
        self.traces = [Trace(right[:-1], sure[:-1], right[-1]) for right, sure in by_prompt]
        self._states.clear()

"""The residual streams of two models on the same tokens, batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bathyscope.model import Model
from bathyscope.model.anatomy.plain import where_float64_is_known
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch, plan_batches, within
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import BoundaryReader

# What the states of a batch may take in float64. Larger batches are no faster.
_STATE_BYTES = 512 << 20


@dataclass(frozen=True)
class States:
    """Both models' residual stream at the same tokens, position 0 of every prompt left out.

    Args:
        prompts: numbers of the batch's prompts.
        source: at some boundaries, each [tokens, width], prompt after prompt.
        target: at all boundaries.
        owners: for every token the place of its prompt in ``prompts``.
    """

    prompts: tuple[int, ...]
    source: list[Tensor]
    target: list[Tensor]
    owners: Tensor


class Streams:
    """Runs two models on prompts that are the same token ids for both."""

    def __init__(self, source: Model, target: Model, prompts: Sequence[TokenizedPrompt]) -> None:
        self.models = (source, target)
        self.prompts = tuple(prompts)
        # sums are kept with the target model, whose states are more
        self.device = where_float64_is_known(target.device)
        self._waves = [Wavefront(model.anatomy, tails=model.checks.tails) for model in self.models]

    @property
    def boundaries(self) -> tuple[int, int]:
        """L + 1 of both."""
        return self.models[0].n_blocks + 1, self.models[1].n_blocks + 1

    @property
    def widths(self) -> tuple[int, int]:
        """Widths of both residual streams."""
        return self.models[0].anatomy.width, self.models[1].anatomy.width

    def tokens(self, chosen: Sequence[int]) -> int:
        """Tokens of some prompts without position 0."""
        return sum(len(self.prompts[i]) - 1 for i in chosen)

    def batches(self, chosen: Sequence[int], sources: int) -> list[list[int]]:
        """Numbers of prompts that are run together, with the source's states at this many boundaries."""
        per_token = 8 * (sources * self.widths[0] + self.boundaries[1] * self.widths[1])
        room = min(_STATE_BYTES // per_token, *(wave.policy.tokens for wave in self._waves))
        equal = any(model.anatomy.equal_lengths for model in self.models)
        planned = plan_batches([len(self.prompts[i]) for i in chosen], 1, room, equal)
        return [[chosen[place] for place in batch] for batch in planned]

    def states(self, picked: Sequence[int], sources: range) -> States:
        """One batch through both models, each once, with the source's states at the boundaries ``sources``."""
        ids = [self.prompts[i].ids for i in picked]
        states_of_models: list[list[Tensor]] = []
        for model, wave, boundaries in zip(self.models, self._waves, (sources, range(self.boundaries[1]))):
            batch = Batch.of(ids, model.device)
            # Position 0 is often an attention sink, whose norm would decide every least-squares fit.
            later_BT = within(batch.tokens, 1, batch.lengths, model.device)
            probe = BoundaryReader(partial(_later, later_BT, self.device), boundaries)
            wave.run(batch, [probe])
            states_of_models.append(probe.taken)
        lengths = torch.tensor([len(prompt_ids) - 1 for prompt_ids in ids], device=self.device)
        owners = torch.arange(len(ids), device=self.device).repeat_interleave(lengths)
        return States(tuple(picked), states_of_models[0], states_of_models[1], owners)


def _later(later_BT: Tensor, device: torch.device, resid_BTD: Tensor) -> Tensor:
    """All tokens but the prompts' first."""
    return resid_BTD[later_BT.to(resid_BTD.device)].to(device)

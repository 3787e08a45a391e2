"""What a removed block leaves: a mean that takes its contribution's place, and its direct effect on the prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bathyscope.labels import labelled
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.schedules import FurtherStates, ScheduleMeasure, ScheduleProbe
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.anatomy.precision import wide_dtype, widened
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch, plan_batches, within
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView, FinalStates
from bathyscope.wavefront.rows import FilledRow

if TYPE_CHECKING:
    import xarray as xr


class ContributionSums:
    """What blocks add to the stream, summed over the tokens of different prompts.

    Args:
        wave: runs plain forwards.
        prompts: of the survey; of those that read the same one is taken.
        first: the first token that counts.
    """

    def __init__(self, wave: Wavefront, prompts: Sequence[TokenizedPrompt], first: int) -> None:
        different = list({prompt.ids: prompt for prompt in prompts}.values())
        lengths = [len(prompt) for prompt in different]
        self.first = first
        self.tokens = sum(length - first for length in lengths)
        device = home_of(wave.anatomy.model)
        self.total_LD = torch.zeros((), dtype=torch.float64, device=device)
        for picked in plan_batches(lengths, 1, wave.policy.tokens, wave.anatomy.equal_lengths):
            batch = Batch.of([different[number].ids for number in picked], device)
            sums = _Sums(batch, first)
            wave.run(batch, [sums])
            self.total_LD = self.total_LD + torch.stack([by_prompt_BD.sum(0) for by_prompt_BD in sums.taken])

    def mean_of_others(self, block: int, own_BD: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return for each prompt the mean of a block's contribution over the tokens of all prompts but itself, [B, D].

        Args:
            own_BD: the sum over each prompt's own tokens, which is left out.
            lengths: tokens of each prompt.
        """
        others_B = self.tokens - torch.tensor(lengths, dtype=torch.float64, device=own_BD.device) + self.first
        return (self.total_LD[block] - own_BD) / others_B[:, None]


def sum_over_tokens(view: BaselineView, batch: Batch, first: int) -> Tensor:
    """Return what a block adds to the plain stream, summed over each prompt's tokens from ``first`` on, [B, D]."""
    keep_BT = within(batch.tokens, first, batch.lengths, view.after_BTD.device)
    return ((view.after_BTD.double() - view.before_BTD.double()) * keep_BT[..., None]).sum(1)


class _Sums(Probe):
    """Sums what every block adds over each prompt's tokens."""

    def __init__(self, batch: Batch, first: int) -> None:
        super().__init__()
        self._batch, self._first = batch, first
        self.taken: list[Tensor] = []

    def baseline(self, view: BaselineView) -> None:
        self.taken.append(sum_over_tokens(view, self._batch, self._first))


class DropProbe(ScheduleProbe):
    """Reads out rows without a block; fills in means, and reads direct effects off the stream that has passed.

    The direct effect of a block needs no call of a block: the prediction is read from the last stream minus what the
    block has added to it, all else being left as it was.
    """

    def __init__(
        self,
        measure: ScheduleMeasure[Any],
        facts: ModelFacts,
        batch: Batch,
        indices: Sequence[int],
        *,
        first: int,
        sums: ContributionSums | None,
        direct: bool,
    ) -> None:
        self._means_BD: dict[int, Tensor] = {}
        if sums is not None:
            shape, dtype = (batch.size, facts.anatomy.width), wide_dtype(facts.anatomy.dtype)
            self._means_BD = {
                block: torch.zeros(shape, dtype=dtype, device=batch.ids_BT.device) for block in measure.rows
            }
        rows = {block: FilledRow(block, first, mean_BD) for block, mean_BD in self._means_BD.items()}
        super().__init__(measure, facts, batch, indices, rows=rows or None)
        self._first, self._sums, self._direct = first, sums, direct
        self._removed: dict[int, Tensor] = {}

    def baseline(self, view: BaselineView) -> None:
        if view.block not in self._rows:
            return
        if self._sums is not None:
            own_BD = sum_over_tokens(view, self._batch, self._first)
            # in place: the row that is born behind this block takes it from here
            self._means_BD[view.block].copy_(self._sums.mean_of_others(view.block, own_BD, self._batch.lengths))
        if self._direct:
            removed_BTD = widened(view.after_BTD) - widened(view.before_BTD)
            if self._sums is not None:
                removed_BTD -= self._means_BD[view.block][:, None]
            removed_BTD[:, : self._first] = 0
            self._removed[view.block] = removed_BTD

    def further_states(self, final: FinalStates) -> Mapping[str, FurtherStates]:
        further = dict(super().further_states(final))
        if self._direct:
            control_BTD = final.control_BTD
            states = {
                block: (widened(control_BTD) - self._removed.pop(block)).to(control_BTD.dtype) for block in self._rows
            }
            further["direct"] = FurtherStates("dropped", states)
        return further

    def result(self) -> xr.Dataset:
        results = super().result()
        if not self._direct:
            return results
        self_repair = results["loss_direct"].values - results["loss"].values
        return results.merge(labelled(self._measure.table or {}, {"self_repair": self_repair}))

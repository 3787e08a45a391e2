"""Skip effects: how much later blocks change their contribution when one block is left out at some tokens.

E[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6) per token, O[s] = ‖y − ȳ‖₂, where block s, or only its attention's
or its MLP's contribution, is skipped. ``all``: at every token from ``protect_first`` on, measured at every token.
``future``: only before a sampled token t, measured from t on, pooled over the sampled t.
Source: csordas2025 and hu2025, layer skipping.
"""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.declared.skip import DECLARATION, REACHES, SkipOptions
from bathyscope.measures.effects import Cell, EffectMeasure, EffectProbe
from bathyscope.measures.finite import require_finite
from bathyscope.measures.over_tokens import reduce_tokens
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.influence import influence_given, influence_received
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare, same_or
from bathyscope.wavefront.probe import BaselineView, FinalStates
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow


class Skip(EffectMeasure[SkipOptions], declared=DECLARATION):
    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if set(self.options.parts) != {"block"}:
            facts.require_parts("skip of attention or mlp")
        super().prepare(facts, prompts, seed)

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        # a row of channels owns all its tokens, a tail only its later ones
        share = 1.0 if self.options.axis == "channels" else 0.5
        return len(self.options.parts) * facts.n_blocks * (1 + self.starts_per_prompt * share) / 2

    def cells(self, n_blocks: int) -> Sequence[Cell]:
        return [(part, s) for part in range(len(self.options.parts)) for s in range(n_blocks)]

    def everywhere(self, cell: Cell) -> Request:
        part, s = cell
        return SkipRow(s, self.options.protect_first, self.options.parts[part])

    def before(self, cell: Cell, prompt: int, t: int) -> Request:
        part, s = cell
        if self.options.axis == "channels":
            return SkipBefore(s, prompt, t, part="channels")
        return SkipBefore(s, prompt, t, self.options.protect_first, self.options.parts[part])

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return SkipProbe(self, facts, batch, indices)


class SkipProbe(EffectProbe):
    """Effects on contributions and on the output of one batch."""

    def __init__(self, measure: Skip, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        self._options = measure.options
        super().__init__(measure, facts, batch, indices, parts=len(measure.options.parts))
        self._output: dict[str, np.ndarray] = {}

    def baseline(self, view: BaselineView) -> None:
        if "block" in self._options.parts:
            self._note_skipped(view)
        if self._options.axis == "channels":
            self._note_lost_channels(view)

    def _note_skipped(self, view: BaselineView) -> None:
        """Where a whole block is skipped, all of its contribution is missing at every token that skips it."""
        size_BT = torch.linalg.vector_norm(view.after_BTD.float() - view.before_BTD.float(), dim=-1)
        gone_BT = size_BT.clone()
        gone_BT[:, : self._options.protect_first] = 0
        cell = self._options.parts.index("block"), view.block
        self.note((None, 0), [(view.block, cell)], gone_BT[None], size_BT, size_BT.new_zeros(()))

    def _note_lost_channels(self, view: BaselineView) -> None:
        # the skipped block itself loses these channels of its contribution at later tokens too
        change_BTD = (view.after_BTD - view.before_BTD).float()
        for prompt, starts in enumerate(self._positions):
            for t in dict.fromkeys(starts):
                later_change = change_BTD[prompt, t : self._batch.lengths[prompt]]
                lost_N, size_N = (
                    torch.linalg.vector_norm(values, dim=-1) for values in (later_change[:, 1:t], later_change)
                )
                place = view.block, (0, view.block)
                self.note((prompt, t), [place], lost_N[None, None], size_N, size_N.new_zeros(()))

    def finish(self, final: FinalStates) -> None:
        batch = self._batch
        control = batch.flat(final.control_BTD)
        rows = [batch.flat(final.full[r]) for r in self._all] + [same_or(control, batch.flat(final.baseline_BTD))]
        change = compare(final.reader, control, rows, ["l2"])["l2"]
        require_finite("The model with a block left out", [change])
        reduced_PKR = torch.stack([reduce_tokens(piece) for piece in batch.split(change)])
        self._noise = torch.maximum(self._noise, reduced_PKR[:, 2, -1])
        # by part and block, the reductions before them
        by_cell = reduced_PKR[..., :-1].unflatten(2, (len(self._options.parts), -1)).transpose(1, 2)
        self._output = {"all": by_cell.cpu().numpy(), "future": self.output_later(final)}

    def result(self) -> xr.Dataset:
        effects = {reach: self.effect(reach) for reach in REACHES}
        data = {f"effect_{reach}": effect for reach, effect in effects.items()}
        data |= {f"output_{reach}": output for reach, output in self._output.items()}
        for reach, effect in effects.items():
            data |= {f"given_{reach}": influence_given(effect), f"received_{reach}": influence_received(effect)}
        return self.dataset(DECLARATION, data, part=list(self._options.parts))

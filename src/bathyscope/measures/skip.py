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

from bathyscope.labels import REDUCTIONS
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.effects import Cell, EffectMeasure, EffectProbe
from bathyscope.measures.finite import require_finite
from bathyscope.measures.of.skip import DECLARATION, REACHES, SkipOptions
from bathyscope.measures.over_tokens import reduce_tokens
from bathyscope.measures.token_samples import TokenSample, TokenSampler, places_in_batch, reduce_by_prompt, sampler_of
from bathyscope.model.anatomy.precision import widened
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.influence import influence_given, influence_received
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.probe import BaselineView, FinalStates
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow


class Skip(EffectMeasure[SkipOptions], declared=DECLARATION):
    sampler: TokenSampler | None = None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if set(self.options.parts) != {"block"}:
            facts.require_parts("skip of attention or mlp")
        super().prepare(facts, prompts, seed)
        self.sampler = sampler_of(self.options, prompts, seed, self.name)

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        share = 1.0 if self.sampler is None else self.sampler.share(tokens)
        return share * super().readouts_per_prompt(facts, tokens)

    @property
    def heeds_protection(self) -> bool:
        # the published slip leaves out channels of every token, whatever is protected
        return self.options.axis != "channels"

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        # a row of channels owns all its tokens, a tail only its later ones
        later = self.starts_per_prompt if self.options.axis == "channels" else self.tails_per_prompt
        return len(self.options.parts) * facts.n_blocks * (1 + later) / 2

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
        self._sampler = measure.sampler
        super().__init__(measure, facts, batch, indices, parts=len(measure.options.parts))
        self._output: dict[str, np.ndarray] = {}
        self._errors: dict[str, np.ndarray] = {}

    def baseline(self, view: BaselineView) -> None:
        if "block" in self._options.parts:
            self._note_skipped(view)
        if self._options.axis == "channels":
            self._note_lost_channels(view)

    def _note_skipped(self, view: BaselineView) -> None:
        """Where a whole block is skipped, all of its contribution is missing at every token that skips it."""
        size_BT = torch.linalg.vector_norm(widened(view.after_BTD) - widened(view.before_BTD), dim=-1)
        gone_BT = size_BT.clone()
        gone_BT[:, : self._options.protect_first] = 0
        cell = self._options.parts.index("block"), view.block
        # A stream of 0 keeps every token: all of a contribution is missing, however small it is.
        self.note((None, 0), [(view.block, cell)], gone_BT[None], size_BT, size_BT.new_zeros(()))

    def _note_lost_channels(self, view: BaselineView) -> None:
        # the skipped block itself loses these channels of its contribution at later tokens too
        change_BTD = widened(view.after_BTD - view.before_BTD)
        for prompt, starts in enumerate(self._positions):
            for t in dict.fromkeys(starts):
                later_change = change_BTD[prompt, t : self._batch.lengths[prompt]]
                lost_N, size_N = (
                    torch.linalg.vector_norm(values, dim=-1) for values in (later_change[:, 1:t], later_change)
                )
                place = view.block, (0, view.block)
                self.note((prompt, t), [place], lost_N[None, None], size_N, size_N.new_zeros(()))

    def finish(self, final: FinalStates) -> None:
        if self._sampler is not None:
            self._finish_sampled(final, self._sampler)
            return
        batch = self._batch
        rows = [batch.flat(final.full[r]) for r in self._all] + [final.baseline_ND]
        change = compare(final.reader, final.control_ND, rows, ["l2"])["l2"]
        require_finite("The model with a block left out", [change])
        reduced_PKR = torch.stack([reduce_tokens(piece) for piece in batch.split(change)])
        self._noise = torch.maximum(self._noise, reduced_PKR[:, 2, -1])
        # by part and block, the reductions before them
        by_cell = reduced_PKR[..., :-1].unflatten(2, (len(self._options.parts), -1)).transpose(1, 2)
        self._output = {"all": by_cell.cpu().numpy(), "future": self.output_later(final)}

    def _finish_sampled(self, final: FinalStates, sampler: TokenSampler) -> None:
        """Measure the mean change of the output at some tokens."""
        batch, n_rows = self._batch, len(self._all)
        samples = [sampler.sample(number, 0, length) for number, length in zip(self._numbers, batch.lengths)]
        places_N = places_in_batch(samples, batch.lengths, batch.ids_BT.device)
        control_ND, baseline_ND = final.control_and_baseline(places_N)
        rows = [batch.flat(final.full[row])[places_N] for row in self._all]
        rows.append(baseline_ND)
        change_RN = self._changes(final, control_ND, rows)
        noise_PR = reduce_by_prompt(samples, change_RN, lambda _, values: values.amax(-1))
        self._noise = torch.maximum(self._noise, noise_PR[:, -1])
        shape = (batch.size, len(self._options.parts), self._facts.n_blocks)
        means_PR = reduce_by_prompt(samples, change_RN[:n_rows], TokenSample.mean)
        errors_PR = reduce_by_prompt(samples, change_RN[:n_rows], TokenSample.error)
        later, later_errors = self._later_sampled(final, sampler)
        self._output = {"all": self._mean_alone(means_PR.cpu().numpy().reshape(shape)), "future": later}
        self._errors = {"all": errors_PR.cpu().numpy().reshape(shape), "future": later_errors}

    def _later_sampled(self, final: FinalStates, sampler: TokenSampler) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean change at later tokens, pooled over the sampled t, and its standard error."""
        shape = (self._batch.size, len(self._options.parts), self._facts.n_blocks)
        sums, squares = np.zeros(shape), np.zeros(shape)
        totals = np.zeros(shape)
        for tail in final.tails:
            cells = [(cell, tail.rows[row]) for row, cell in self._later.items() if row in tail.rows]
            if not cells:
                continue
            sample = sampler.sample(self._numbers[tail.prompt], tail.start, tail.start + len(tail.control_ND))
            places = [place - tail.start for place in sample.places]
            change_RN = self._changes(final, tail.control_ND[places], [state_ND[places] for _, state_ND in cells])
            parts, blocks = [part for (part, _), _ in cells], [block for (_, block), _ in cells]
            sums[tail.prompt, parts, blocks] += sample.total * sample.mean(change_RN).cpu().numpy()
            # Samples behind different t are drawn independently: variances of their totals add up.
            squares[tail.prompt, parts, blocks] += (sample.total * sample.error(change_RN).cpu().numpy()) ** 2
            totals[tail.prompt, parts, blocks] += sample.total
        # the last block has no tail: skipping it before t changes nothing from t on
        means = np.divide(sums, totals, out=np.zeros(shape), where=totals > 0)
        errors = np.divide(np.sqrt(squares), totals, out=np.zeros(shape), where=totals > 0)
        without = [not starts for starts in self._positions]
        means[without] = errors[without] = np.nan
        return self._mean_alone(means), errors

    def _changes(self, final: FinalStates, control_ND: torch.Tensor, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return ‖y − ȳ‖₂ of rows at some tokens, [rows, tokens]."""
        change_RN = compare(final.reader, control_ND, rows, ["l2"])["l2"]
        require_finite("The model with a block left out", [change_RN])
        return change_RN

    def _mean_alone(self, means: np.ndarray) -> np.ndarray:
        """Return [prompt, part, reduction, skipped], of which only the mean is known."""
        unknown = np.full_like(means, np.nan)
        return np.stack([means if name == "mean" else unknown for name in REDUCTIONS], axis=2)

    def result(self) -> xr.Dataset:
        effects = {reach: self.effect(reach) for reach in REACHES}
        data = {f"effect_{reach}": effect for reach, effect in effects.items()}
        reductions = self._options.output_reductions or REDUCTIONS
        missing = [number for number, name in enumerate(REDUCTIONS) if name not in reductions]
        for reach, output in self._output.items():
            output[:, :, missing] = np.nan
            data[f"output_{reach}"] = output
        data |= {f"output_{reach}_sampling_error": errors for reach, errors in self._errors.items()}
        for reach, effect in effects.items():
            data |= {f"given_{reach}": influence_given(effect), f"received_{reach}": influence_received(effect)}
        if self._names:
            data |= {"effect_at": self.effect_at(), "output_at": self.output_at()}
        return self.dataset(DECLARATION, data, part=list(self._options.parts))

"""Residual erasure: how much the prediction of the answer needs what one token carries at one boundary.

R[b,t] = max over the answer-predicting positions of ‖y − ȳ‖₂, where h_b[t] is replaced by h̃_b, the mean of h_b
over all tokens of a reference prompt set. ``effect_future``: the maximum over all positions after t. Source:
csordas2025 and hu2025, residual erasure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from bathyscope.core.descriptions import described
from bathyscope.errors import PromptError
from bathyscope.labels import Label
from bathyscope.measures.answered import AnsweredMeasure, AnsweredProbe
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.operand_tables import OPERANDS
from bathyscope.measures.options import Shortest
from bathyscope.options import Range
from bathyscope.prompts.in_memory import Source, kept_source
from bathyscope.prompts.prompt import PromptSet, TokenizedPrompt
from bathyscope.wavefront.observer import BoundaryReader
from bathyscope.wavefront.rows import Replacement

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront
    from bathyscope.wavefront.probe import ReplacedStates

_label = partial(Label, source="csordas2025, residual erasure; hu2025, residual erasure")
_effect = partial(
    _label,
    "prompt boundary token",
    direction="higher = the predictions need what the token carries at this boundary",
)


@described
@dataclass(frozen=True)
class ErasureOptions:
    """Options of residual erasure.

    Args:
        reference: the prompts whose mean residual stream takes the erased one's place, given as the survey's
            prompts are (such as gsm8k:10); None = the survey's own prompts, measured or not.
        include_first: position 0 of the reference prompts counts in the mean.
        future: also measure the change at all positions after the erased token.
        max_tokens: longer prompts are left out, since the cost grows with the square of the length; None lifts the
            limit.
        reference_scale: "mean" = the mean over tokens; "width" = the sum over tokens per prompt, divided by the
            width of the stream instead of the tokens (a fault of hu2025's published code).
    """

    # not a text first: whatever else is given is checked where prompts are resolved
    reference: PromptSet | Source | None = None
    include_first: bool = True
    future: bool = False
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    shortest: Shortest = 3
    reference_scale: Literal["mean", "width"] = "mean"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", kept_source(self.reference))


DECLARATION: Final = Declaration(
    "erasure",
    "Effect of erasing one token's residual stream at one boundary on the prediction of the answer.",
    ErasureOptions,
    {
        "effect": _effect(
            "change of the predictions of the answer when one token's residual stream is erased",
            formula="h_b[t] := h̃_b; max over the answer-predicting positions of ‖y − ȳ‖₂",
        ),
        "effect_future": _effect(
            "change of the predictions of later tokens when one token's residual stream is erased",
            formula="h_b[t] := h̃_b; max over positions > t of ‖y − ȳ‖₂",
            optional=True,
        ),
        "answer_start": _label("prompt", "first token of the answer (−1 = not measured)", "token"),
        **OPERANDS,
    },
    needs_answers=True,
    order=80,
    panels={"prompt_": ("effect",), "later_": ("effect_future",)},
    question="until which boundary does a token matter to the answer?",
    rows="one per boundary and token",
)


class Erasure(AnsweredMeasure[ErasureOptions], declared=DECLARATION):
    growth = "with the square of the length"

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        from bathyscope.measures.operands import require_operands

        self.choose(facts, prompts)
        require_operands(self.name, prompts)

    @property
    def reference(self) -> Source | None:
        return self.options.reference

    def begin(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> None:
        """The reference residual streams h̃_b, [boundary, width], from plain forwards.

        Raises:
            PromptError: fewer than two tokens to take the mean of.
        """
        import torch

        from bathyscope.model.anatomy.plain import home_of
        from bathyscope.model.anatomy.precision import wide_dtype
        from bathyscope.wavefront.batch import Batch, plan_batches, within

        first = 0 if self.options.include_first else 1
        lengths = [len(p) for p in reference]
        tokens = sum(n - first for n in lengths)
        if tokens < 2:
            raise PromptError(
                f"erasure: the reference set has {tokens} tokens to take the mean of (include_first="
                f"{self.options.include_first}); give at least 2."
            )
        device = home_of(wave.anatomy.model)
        total_LD = torch.zeros((), dtype=torch.float64, device=device)
        for picked in plan_batches(lengths, 1, wave.policy.tokens, wave.anatomy.equal_lengths):
            batch = Batch.of([reference[i].ids for i in picked], device)
            keep_BT = within(batch.tokens, first, batch.lengths, device)
            sums = BoundaryReader(partial(_summed, keep_BT))
            wave.run(batch, [sums])
            total_LD = total_LD + torch.stack(sums.taken)
        # A published fault divides by prompts × width in place of the number of tokens.
        by = tokens if self.options.reference_scale == "mean" else len(reference) * wave.anatomy.width
        self.values_LD = (total_LD / by).to(wide_dtype(wave.anatomy.dtype))

    def stands(self, before: Self, prompts: int) -> bool:
        # without a reference of its own it is the mean over all prompts
        return self.options.reference is not None and super().stands(before, prompts)

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        # a row for every block and token, which runs half of the blocks on average, on half of the tokens as a tail
        return (facts.n_blocks + 1) * tokens / (4 if facts.checks.tails else 2)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        from bathyscope.measures.operands import operand_summary

        return operand_summary(DECLARATION, merged, merged["effect"], seed)

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ErasureProbe(self, facts, batch, indices)


def _summed(keep_BT: Tensor, resid_BTD: Tensor) -> Tensor:
    """The stream summed over some tokens, in float64."""
    return resid_BTD[keep_BT].double().sum(0)


class ErasureProbe(AnsweredProbe):
    """Compares the outputs of erased rows with the control's, group after group."""

    def __init__(self, measure: Erasure, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        import torch

        super().__init__(measure, facts, batch, indices)
        values_LD = measure.values_LD
        # erasing the last token changes no position that is looked at, and only ``future`` looks at the last
        unseen = 0 if self._options.future else 1
        self.replacements = tuple(
            Replacement(
                prompt,
                [range(token, token + 1) for token in range(batch.lengths[prompt] - 1)],
                batch.lengths[prompt] - unseen,
                values_LD[:, None].expand(-1, batch.lengths[prompt], -1),
            )
            for prompt in self._measured
        )
        self._final_D = values_LD[-1]
        device, shape = batch.ids_BT.device, (batch.size, facts.n_blocks + 1, self._width)
        self._effect = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
        self._future = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
        self._noise: Tensor = torch.full((batch.size,), torch.nan, dtype=torch.float64, device=device)
        self._finite = torch.ones((), dtype=torch.bool, device=device)
        for prompt in self._measured:
            self._effect[prompt, :, : batch.lengths[prompt]] = 0
            self._future[prompt, :, : batch.lengths[prompt] - 1] = 0
            self._noise[prompt] = 0

    def landed(self, states: ReplacedStates) -> None:
        import torch

        prompt = states.replacement.prompt
        erased = range(states.spans[0].start, states.spans[-1].stop)
        length = self._batch.lengths[prompt]
        predicting = range(length - 1 - self.answer(prompt), length - 1)
        looked_at = range(erased.start, length) if self._options.future else predicting
        # States come group by group; each position takes the maximum over what has landed so far.
        for position in looked_at:
            # rows that are erased later than this position do not differ here
            rows = erased[: max(0, position + (position in predicting) - erased.start)]
            if rows:
                change_LT, final = self._change(states, position, len(rows))
                if position in predicting:
                    kept_LT = self._effect[prompt, :-1, rows.start : rows.stop]
                    torch.maximum(kept_LT, change_LT, out=kept_LT)
                    if position in erased:
                        self._effect[prompt, -1, position] = final
                if self._options.future:
                    before = len(erased[: position - erased.start])
                    kept_LT = self._future[prompt, :-1, erased.start : erased.start + before]
                    torch.maximum(kept_LT, change_LT[:, :before], out=kept_LT)

    def _change(self, states: ReplacedStates, position: int, tokens: int) -> tuple[Tensor, Tensor]:
        """‖y − ȳ‖₂ at one position: of the rows erased at the first ``tokens``, and where h_L itself is erased."""
        import torch

        from bathyscope.wavefront.compare import at_one_position
        from bathyscope.wavefront.metrics import l2

        place = position - states.start
        rows = states.rows_LSND[:, :tokens, place]
        control = states.control_ND[place]
        # In the same products as the rows: h_L erased, which no block sees, and the plain forward for the noise.
        others = torch.stack([self._final_D.to(control), states.baseline_ND[place]])
        change = at_one_position(states.reader, control, torch.cat([rows.flatten(0, 1), others]), l2)
        noise = self._noise[states.replacement.prompt]
        noise.copy_(torch.maximum(noise, change[-1]))
        self._finite &= torch.isfinite(change).all()
        return change[:-2].unflatten(0, rows.shape[:2]), change[-2]

    def result(self) -> xr.Dataset:
        import numpy as np

        from bathyscope.measures.finite import overflow

        if not bool(self._finite):
            raise overflow("The model with a token erased")
        data: dict[str, Any] = {"effect": self._effect}
        if self._options.future:
            data["effect_future"] = self._future
        data["answer_start"] = self.answer_start()
        return DECLARATION.dataset(data, {"boundary": np.arange(self._facts.n_blocks + 1), **self.token_coords()})

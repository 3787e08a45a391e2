"""Residual erasure: how much the prediction of the answer needs what one token carries at one boundary.

R[b,t] = max over the answer-predicting positions of ‖y − ȳ‖₂, where h_b[t] is replaced by h̃_b, the mean of h_b
over all tokens of a reference prompt set. ``effect_future``: the maximum over all positions after t. Source:
csordas2025 and hu2025, residual erasure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from bathyscope.core.descriptions import described
from bathyscope.errors import PromptError, warn
from bathyscope.labels import Label
from bathyscope.measures.answered import AnsweredMeasure, AnsweredProbe
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.operand_tables import OPERANDS
from bathyscope.measures.options import Shortest
from bathyscope.measures.places import (
    NO_PLACE,
    PLACES,
    NamedPlaces,
    PlacesForm,
    TokenPlace,
    as_places,
    find_places,
    place_values,
)
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
        positions: places by name, which alone are erased, each as a whole and apart from the others: {"at": "Paris"},
            a text that every prompt holds, {"at": 7} or {"at": -2}, a token, {"at": "label:city"}, a label; or a list
            of these. None = every token.
    """

    # not a text first: whatever else is given is checked where prompts are resolved
    reference: PromptSet | Source | None = None
    include_first: bool = True
    future: bool = False
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    shortest: Shortest = 3
    reference_scale: Literal["mean", "width"] = "mean"
    positions: PlacesForm = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", as_places(self.positions, "erasure"))
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
        "effect_at": _label(
            "prompt boundary place",
            "change of the predictions of the answer when the residual stream of a named place is erased",
            formula="as effect, all tokens of the place erased together",
            direction="higher = the predictions need what the place carries at this boundary",
            optional=True,
        ),
        "effect_future_at": _label(
            "prompt boundary place",
            "change of the predictions of later tokens when the residual stream of a named place is erased",
            formula="as effect_future, all tokens of the place erased together",
            direction="higher = the predictions need what the place carries at this boundary",
            optional=True,
        ),
        **PLACES,
        "answer_start": _label("prompt", "first token of the answer (−1 = not measured)", "token"),
        **OPERANDS,
    },
    needs_answers=True,
    order=80,
    panels={
        "prompt_": ("effect",),
        "later_": ("effect_future",),
        "effect_at": ("effect_at",),
        "effect_future_at": ("effect_future_at",),
    },
    question="until which boundary does a token matter to the answer?",
    rows="one per boundary and token",
)


class Erasure(AnsweredMeasure[ErasureOptions], declared=DECLARATION):
    growth = "with the square of the length"
    names: tuple[str, ...] = ()
    """Of places, where positions are given by name; then ``places`` has them by number of the prompt."""
    places: Mapping[int, tuple[TokenPlace, ...]] = {}

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        from bathyscope.measures.operands import require_operands

        self.choose(facts, prompts)
        require_operands(self.name, prompts)
        places = self.options.positions
        if isinstance(places, NamedPlaces):
            self.names = places.names
            measured = [n for n in range(len(prompts)) if n in self._measured]
            chosen = find_places(places, [prompts[n] for n in measured], facts, self.name)
            self.places = dict(zip(measured, chosen))
            self._warn_of_last(prompts)

    def _warn_of_last(self, prompts: Sequence[TokenizedPrompt]) -> None:
        """Warn of places that are a prompt's last token, behind which nothing can change."""
        lasts = [
            place.tokens.start >= len(prompts[number]) - 1 for number, places in self.places.items() for place in places
        ]
        if any(lasts):
            warn(
                f"{self.name}: {sum(lasts)} of {len(lasts)} places are a prompt's last token, behind which nothing is "
                "predicted; their effects are 0. Name earlier tokens."
            )

    @property
    def reference(self) -> Source | None:
        return self.options.reference

    def read_reference(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> None:
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

    def stays_valid(self, before: Self, prompts: int) -> bool:
        # without a reference of its own it is the mean over all prompts
        return self.options.reference is not None and super().stays_valid(before, prompts)

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        # a row for every block and token, which runs half of the blocks on average, on half of the tokens as a tail
        return (facts.n_blocks + 1) * (len(self.names) or tokens) / (4 if facts.checks.tails else 2)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        from bathyscope.measures.operands import operand_summary

        # inputs of steps are looked for among all tokens
        return None if self.names else operand_summary(DECLARATION, merged, merged["effect"], seed)

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
        self._names = measure.names
        self._places = [measure.places.get(i, (NO_PLACE,) * len(measure.names)) for i in indices]
        # by prompt what is erased together, in the order of first tokens: every token, or the named places
        measured = set(self._measured)
        self._spans = [self._spans_of(prompt) if prompt in measured else [] for prompt in range(batch.size)]
        # erasing the last token changes no position that is looked at, and only ``future`` looks at the last
        unseen = 0 if self._options.future else 1
        self.replacements = tuple(
            Replacement(
                prompt,
                self._spans[prompt],
                batch.lengths[prompt] - unseen,
                values_LD[:, None].expand(-1, batch.lengths[prompt], -1),
            )
            for prompt in self._measured
            if self._spans[prompt]
        )
        self._final_D = values_LD[-1]
        device = batch.ids_BT.device
        shape = (batch.size, facts.n_blocks + 1, max([self._width, *map(len, self._spans)]))
        self._effect = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
        self._future = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
        self._noise: Tensor = torch.full((batch.size,), torch.nan, dtype=torch.float64, device=device)
        self._finite = torch.ones((), dtype=torch.bool, device=device)
        for prompt in self._measured:
            # erasing the last token changes no prediction of the answer
            unchanged = len(self._spans[prompt]) if self._names else batch.lengths[prompt]
            self._effect[prompt, :, :unchanged] = 0
            self._future[prompt, :, : len(self._spans[prompt])] = 0
            self._noise[prompt] = 0

    def _spans_of(self, prompt: int) -> list[range]:
        last = self._batch.lengths[prompt] - 1
        if not self._names:
            return [range(token, token + 1) for token in range(last)]
        spans = {range(place.tokens.start, min(place.tokens.stop, last)) for place in self._places[prompt]}
        return sorted((span for span in spans if span), key=lambda span: (span.start, span.stop))

    def landed(self, states: ReplacedStates) -> None:
        import torch

        prompt, spans = states.replacement.prompt, states.spans
        # States come group by group; their spans are neighbours in the order in which they were requested.
        first = next(number for number, span in enumerate(self._spans[prompt]) if span is spans[0])
        length = self._batch.lengths[prompt]
        predicting = range(length - 1 - self.answer(prompt), length - 1)
        looked_at = range(spans[0].start, length) if self._options.future else predicting
        # Each position takes the maximum over what has landed so far.
        for position in looked_at:
            # rows that are erased later than this position do not differ here
            rows = sum(span.start < position + (position in predicting) for span in spans)
            if not rows:
                continue
            change_LS, final = self._change(states, position, rows)
            if position in predicting:
                kept_LS = self._effect[prompt, :-1, first : first + rows]
                torch.maximum(kept_LS, change_LS, out=kept_LS)
                for number in (number for number, span in enumerate(spans) if position in span):
                    kept_at_L = self._effect[prompt, -1, first + number]
                    torch.maximum(kept_at_L, final, out=kept_at_L)
            if self._options.future:
                behind = [number for number, span in enumerate(spans[:rows]) if span.stop <= position]
                for number in behind:
                    kept_L = self._future[prompt, :-1, first + number]
                    torch.maximum(kept_L, change_LS[:, number], out=kept_L)

    def _change(self, states: ReplacedStates, position: int, spans: int) -> tuple[Tensor, Tensor]:
        """‖y − ȳ‖₂ at one position: of the rows of the first ``spans``, and where h_L itself is erased."""
        import torch

        from bathyscope.wavefront.compare import at_one_position
        from bathyscope.wavefront.metrics import l2

        place = position - states.start
        rows = states.rows_LSND[:, :spans, place]
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
        coords: dict[str, Any] = {"boundary": np.arange(self._facts.n_blocks + 1), **self.token_coords()}
        effects = {"effect": self._effect} | ({"effect_future": self._future} if self._options.future else {})
        data: dict[str, Any] = dict(effects)
        if self._names:
            data |= place_values(self._places)
            coords["place"] = list(self._names)
            for name, values_BLS in effects.items():
                data[name], data[f"{name}_at"] = self._by_place(values_BLS, is_future=name == "effect_future")
        data["answer_start"] = self.answer_start()
        return DECLARATION.dataset(data, coords)

    def _by_place(self, values_BLS: Tensor, *, is_future: bool) -> tuple[Tensor, Tensor]:
        """Return the effects of single tokens that are places, [batch, boundary, token], and of all places."""
        import torch

        single = values_BLS.new_full((*values_BLS.shape[:2], self._width), torch.nan)
        by_place = values_BLS.new_full((*values_BLS.shape[:2], len(self._names)), torch.nan)
        for prompt in self._measured:
            last = self._batch.lengths[prompt] - 1
            for number, place in enumerate(self._places[prompt]):
                span = range(place.tokens.start, min(place.tokens.stop, last))
                # nothing that is looked at comes behind the last token
                column = self._spans[prompt].index(span) if span else None
                by_place[prompt, :, number] = 0 if column is None else values_BLS[prompt, :, column]
                if is_future and place.tokens.stop > last:
                    # no token comes behind such a place
                    by_place[prompt, :, number] = torch.nan
                if len(place.tokens) == 1:
                    single[prompt, :, place.tokens.start] = by_place[prompt, :, number]
        return single, by_place

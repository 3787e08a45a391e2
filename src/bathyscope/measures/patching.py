"""Patching: what becomes of the answer when one token holds another prompt's residual stream at one boundary.

h_b[t] of a prompt (the target) is replaced by that of another one of the same length (the source) and everything after
it recomputed, for every boundary b and token t; or a_b[t] or m_b[t], what block b's attention or MLP adds there. The
prediction is read where the two answers first differ: how much of the way from the target's answer to the source's does
it go? In addition to single tokens, all tokens are patched together. Source: Meng et al. 2022 (causal tracing); Zhang &
Nanda 2024 (activation patching, logit differences).

Both prompts of a pair must be in one wave, which shows the source's stream before the target's rows begin, and shards
and batches are cut without regard to pairs. So the pairs of a batch's targets have a wave of their own: one more plain
forward for each of the two, next to some hundred rows.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.core.text import written_out
from bathyscope.errors import PromptError, warn
from bathyscope.measures.answered import padded_pieces
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, refusal
from bathyscope.measures.finite import require_finite
from bathyscope.measures.of.patching import DECLARATION, PatchingOptions
from bathyscope.measures.operands import operand_summary, require_operands
from bathyscope.measures.places import NO_PLACE, NamedPlaces, TokenPlace, find_places, place_values
from bathyscope.measures.prompt_pairs import PromptPair, pairs_of
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.anatomy.precision import wide_dtype
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import at_one_position
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.metrics import Pair, kl_from_reference
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.places import index
from bathyscope.wavefront.probe import BaselineView, FinalStates, ReplacedStates
from bathyscope.wavefront.reader import Reader
from bathyscope.wavefront.rows import Replacement

ANSWERS = ("target", "source")
"""Of a pair: the prompt that is patched, and the one that it is patched from."""
_NUMBERS = 3
"""Read of every row: the change of both answers' log-probabilities, and the divergence."""


class Patching(Measure[PatchingOptions], declared=DECLARATION):
    names: tuple[str, ...] = ()
    """Of places, where positions are given by name; then ``places`` has them by number of the target."""
    places: Mapping[int, tuple[TokenPlace, ...]] = {}

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        reason = super().unavailable(facts, prompts) or refusal(lambda: self._paired(prompts))
        return None if reason is None else reason.removeprefix("patching: ")

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if set(self.options.parts) - {"block"}:
            facts.require_parts(f"{self.name} of attention or mlp")
        require_operands(self.name, prompts)
        self.sources, pairs = self._paired(prompts)
        most = self.options.max_tokens
        self.pairs = {n: pair for n, pair in pairs.items() if most is None or len(pair.target) <= most}
        longer = len(pairs) - len(self.pairs)
        if not self.pairs:
            shortest = min(len(pair.target) for pair in pairs.values())
            raise PromptError(
                f"patching: all {longer} prompts to be patched are longer than max_tokens={most} (the shortest has "
                f"{shortest} tokens); give shorter prompts or a larger max_tokens. Its cost grows with the square of "
                "the length."
            )
        if longer:
            warn(f"patching: {longer} of {len(pairs)} prompts are not patched (longer than max_tokens={most}).")
        self_patched = [prompts[target].id for target in self.pairs if self.sources[target] == target]
        if self_patched:
            words = ("is", "itself") if len(self_patched) == 1 else ("are", "themselves")
            warn(
                f"patching: {written_out(self_patched)} {words[0]} patched from {words[1]}, which changes nothing: all "
                "effects are 0 there."
            )
        others = (pair for target, pair in self.pairs.items() if self.sources[target] != target)
        alike = sum(pair.answers[0] == pair.answers[1] for pair in others)
        if alike:
            warn(
                f"patching: {alike} of {len(self.pairs)} prompts have the answer of the prompt that they are patched "
                "from, so that nothing can be recovered, and recovered is missing there. Give the two prompts of a "
                "pair different answers."
            )
        self.width = max(len(pair.target) for pair in self.pairs.values())
        places = self.options.positions
        if isinstance(places, NamedPlaces):
            self.names = places.names
            chosen = find_places(places, [pair.target for pair in self.pairs.values()], facts, self.name)
            self.places = dict(zip(self.pairs, chosen))

    def _paired(self, prompts: Sequence[TokenizedPrompt]) -> tuple[Mapping[int, int], dict[int, PromptPair]]:
        """Numbers of targets → of their sources, and the checked pairs by number of the target."""
        sources = pairs_of(prompts, self.options.pairs)
        return sources, {n: PromptPair.of(prompts[n], prompts[source]) for n, source in sources.items()}

    def measures_prompt(self, number: int) -> bool:
        return number in self.pairs

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        # a row for every block and token, which runs half of the blocks on average, on half of the tokens as a tail
        spans = len(self.names) or tokens
        return 2 + len(self.options.parts) * (facts.n_blocks + 1) * spans / (4 if facts.checks.tails else 2)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        # inputs of steps are looked for among all tokens
        has_all = "block" in self.options.parts and not self.names
        kl = merged["kl"].sel(part="block") if has_all else None
        source = merged["source"].values
        number = np.arange(len(source))
        # what is found in one of two prompts that are patched from each other is largely found in the other
        mutual = (source >= 0) & (source[source] == number)
        return operand_summary(DECLARATION, merged, kl, seed, np.where(mutual, np.minimum(number, source), number))

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return PatchingProbe(self, facts, indices)


class PatchingProbe(MeasureProbe):
    """Patches the targets among a batch's prompts when the wave has passed; the others have no pair."""

    def __init__(self, measure: Patching, facts: ModelFacts, indices: Sequence[int]) -> None:
        super().__init__()
        self._parts = measure.options.parts
        self._facts = facts
        self._width = measure.width
        self._pairs = [measure.pairs.get(n) for n in indices]
        self._sources = [measure.sources.get(n, -1) for n in indices]
        self._pieces = [None if pair is None else facts.pieces(pair.target.ids) for pair in self._pairs]
        self._names = measure.names
        self._places = [measure.places.get(n, (NO_PLACE,) * len(measure.names)) for n in indices]
        self._patched: list[PatchedPair] = []

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        pairs = [pair for pair in self._pairs if pair is not None]
        if not pairs:
            return
        places = [places for pair, places in zip(self._pairs, self._places) if pair is not None]
        # A prompt may be the source of several targets, and mutual pairs name both: each is computed once.
        prompts = list(dict.fromkeys(ids for pair in pairs for ids in (pair.target.ids, pair.source.ids)))
        batch = Batch.of(prompts, home_of(wave.anatomy.model))
        self._patched = [
            PatchedPair(
                self._parts,
                self._facts,
                pair,
                prompts.index(pair.target.ids),
                prompts.index(pair.source.ids),
                pair_places if self._names else None,
            )
            for pair, pair_places in zip(pairs, places)
        ]
        wave.run(batch, self._patched, lambda block, blocks: step(block / blocks))

    def noise(self) -> np.ndarray:
        return self._by_prompt([pair.noise for pair in self._patched], ())

    def result(self) -> xr.Dataset:
        parts, boundaries = len(self._parts), self._facts.n_blocks + 1
        pair_numbers = [pair.numbers(self._width) for pair in self._patched]
        single, everywhere = (
            self._by_prompt([numbers[which] for numbers in pair_numbers], shape)
            for which, shape in enumerate(((parts, boundaries, self._width, _NUMBERS), (parts, boundaries, _NUMBERS)))
        )
        answer_log_p = self._by_prompt([pair.log_p for pair in self._patched], (len(ANSWERS), len(ANSWERS)))
        gap = (answer_log_p[:, 0, 0] - answer_log_p[:, 0, 1]) - (answer_log_p[:, 1, 0] - answer_log_p[:, 1, 1])
        data = {
            **_named(single, gap),
            **{f"{name}_all": values for name, values in _named(everywhere, gap).items()},
            "log_p": answer_log_p,
            "source": np.array(self._sources, dtype=np.int64),
            "read_at": np.array([-1 if pair is None else pair.read_at for pair in self._pairs], dtype=np.int64),
        }
        coords: dict[str, Any] = {
            "part": list(self._parts),
            "boundary": np.arange(boundaries),
            "token": np.arange(self._width),
            "answer": list(ANSWERS),
            "read_in": list(ANSWERS),
            "piece": (("prompt", "token"), padded_pieces(self._pieces, self._width)),
        }
        if self._names:
            shape = (parts, boundaries, len(self._names), _NUMBERS)
            at_places = self._by_prompt([pair.place_numbers() for pair in self._patched], shape)
            data |= {f"{name}_at": values for name, values in _named(at_places, gap).items()}
            data |= place_values(self._places)
            coords["place"] = list(self._names)
        return DECLARATION.dataset(data, coords)

    def _by_prompt(self, values: Sequence[object], shape: tuple[int, ...]) -> np.ndarray:
        """Of the patched prompts their values, NaN for the others."""
        filled = np.full((len(self._pairs), *shape), np.nan)
        places = [place for place, pair in enumerate(self._pairs) if pair is not None]
        for place, value in zip(places, values):
            filled[place] = value
        return filled


def _named(numbers: np.ndarray, gap: np.ndarray) -> dict[str, np.ndarray]:
    """The variables of numbers [prompt, …, (change of target's, of source's, kl)].

    Args:
        gap: per prompt by how much the difference of log-probabilities is larger in the target than in the source.
    """
    change, kl = numbers[..., :2], numbers[..., 2]
    way = gap.reshape(-1, *[1] * (kl.ndim - 1))
    # the same answer in both leaves no way to go
    recovered = np.divide(change[..., 1] - change[..., 0], way, out=np.full_like(kl, np.nan), where=way != 0)
    return {"recovered": recovered, "change": change, "kl": kl}


class PatchedPair(Probe):
    """One pair in its wave: hands the source's stream on to the target's rows, and reads them where they land.

    Args:
        parts: what is put in.
        target, source: their places in the batch.
        places: named ones, which alone are patched, next to all tokens; None = every token.
    """

    def __init__(
        self,
        parts: Sequence[str],
        facts: ModelFacts,
        pair: PromptPair,
        target: int,
        source: int,
        places: Sequence[TokenPlace] | None = None,
    ) -> None:
        self._facts = facts
        self._pair = pair
        self._target = target
        self._source = source
        stop = pair.read_at + 1
        weight = next(p for p in facts.anatomy.model.parameters() if p.is_floating_point())
        # some families keep the stream in float32 whatever their weights are in
        shape = (facts.n_blocks, stop, facts.anatomy.width)
        empty = torch.zeros(shape, dtype=wide_dtype(weight.dtype), device=weight.device)
        self._values = {part: empty.clone() for part in parts}
        # tokens before the first in which the prompts differ hold the same, and those behind the read one are not seen
        seen = range(pair.first, stop)
        self._single = None if places is None else {p.tokens.start for p in places if len(p.tokens) == 1}
        self._places = None if places is None else [_within(place.tokens, seen) for place in places]
        if self._places is None:
            spans = [range(token, token + 1) for token in seen]
        else:
            spans = sorted({span for span in self._places if span}, key=lambda span: (span.start, span.stop))
        self._spans = [range(pair.first, stop), *spans] if seen else []
        super().__init__(
            wants_parts=any(part != "block" for part in parts),
            replacements=[
                Replacement(target, self._spans, stop, part_values, part) for part, part_values in self._values.items()
            ],
        )
        self.noise = 0.0
        self.log_p = np.full((len(ANSWERS), len(ANSWERS)), np.nan)
        """Of both answers in both prompts, [read in, answer]."""
        # of each part what is read of the rows, [boundary, span, number]; the first span is that of all tokens
        self._results: dict[str, Tensor] = {}
        self._at_L = np.zeros(_NUMBERS)

    def baseline(self, view: BaselineView) -> None:
        streams = {"block": view.before_BTD, "attention": view.attention_BTD, "mlp": view.mlp_BTD}
        for part, values_LTD in self._values.items():
            stream_BTD = streams[part]
            if stream_BTD is not None:  # some families have blocks without one of the parts
                values_LTD[view.block] = stream_BTD[self._source, : values_LTD.shape[1]]

    def landed(self, states: ReplacedStates) -> None:
        read_place = self._pair.read_at - states.start
        rows_LSD, control_D = states.rows_LSND[:, :, read_place], states.control_ND[read_place]
        numbers = self._numbers(
            states.reader,
            control_D,
            torch.cat([rows_LSD.flatten(0, 1), states.baseline_ND[read_place, None]]),
        )
        require_finite("The model with a token patched", [numbers])
        self.noise = max(self.noise, float(numbers[-1, :2].abs().max()))
        shape = (len(rows_LSD), len(self._spans), _NUMBERS)
        part_numbers = self._results.setdefault(states.replacement.part, numbers.new_zeros(shape))
        # States come group by group; their spans are neighbours in the order in which they were requested.
        first = next(place for place, span in enumerate(self._spans) if span is states.spans[0])
        part_numbers[:, first : first + len(states.spans)] = numbers[:-1].unflatten(0, rows_LSD.shape[:2])

    def finish(self, final: FinalStates) -> None:
        ends = final.baseline_BTD[[self._target, self._source], self._pair.read_at]
        answers_NA = index(self._pair.answers, ends.device).expand(len(ends), -1)
        logits_NV = final.reader.read(ends)
        # A logit of −inf anywhere leaves the answers' probabilities finite, and is an overflow all the same.
        require_finite("The model", [logits_NV])
        log_p = Distribution(logits_NV).log_p_of(answers_NA)
        self.log_p = log_p.cpu().numpy()
        self._at_L = self._numbers(final.reader, ends[0], ends[1:])[0].cpu().numpy()

    def _is_patched_alone(self, token: int) -> bool:
        """Whether a token is patched alone, or would be if both prompts did not hold the same there."""
        return self._single is None or token in self._single

    def place_numbers(self) -> np.ndarray:
        """What is read of rows patched at a named place, [part, boundary, place, number]."""
        spans, blocks, last = self._places or (), self._facts.n_blocks, self._pair.read_at
        values = np.zeros((len(self._values), blocks + 1, len(spans), _NUMBERS))
        for row, part in enumerate(self._values):
            for column, span in enumerate(spans):
                if span and part in self._results:
                    values[row, :blocks, column] = self._results[part][:, self._spans.index(span, 1)].cpu().numpy()
                if part == "block" and last in span:
                    values[row, -1, column] = self._at_L
            if part != "block":
                values[row, -1] = np.nan
        return values

    def numbers(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """What is read of rows patched at one token, [part, boundary, token, number], and of those at all tokens.

        Args:
            width: tokens; those behind the one that is read have NaN.
        """
        blocks, seen = self._facts.n_blocks, self._pair.read_at + 1
        single = np.full((len(self._values), blocks + 1, width, _NUMBERS), np.nan)
        single[:, :, [token for token in range(seen) if self._is_patched_alone(token)]] = 0.0
        everywhere = np.zeros((len(self._values), blocks + 1, _NUMBERS))
        for place, part in enumerate(self._values):
            if part in self._results:
                part_numbers = self._results[part].cpu().numpy()
                everywhere[place, :blocks] = part_numbers[:, 0]
                for number, span in enumerate(self._spans[1:], start=1):
                    if len(span) == 1:
                        single[place, :blocks, span.start] = part_numbers[:, number]
            if part == "block":
                # h_L is seen by the prediction at its own token alone
                everywhere[place, -1] = self._at_L
                if self._is_patched_alone(seen - 1):
                    single[place, -1, seen - 1] = self._at_L
            else:  # a block's parts stand at the boundary of its number
                everywhere[place, -1] = single[place, -1] = np.nan
        return single, everywhere

    def _numbers(self, reader: Reader, control_D: Tensor, rows_ND: Tensor) -> Tensor:
        metric = partial(_changes, answers_A=index(self._pair.answers, rows_ND.device))
        return at_one_position(reader, control_D, rows_ND, metric)


def _changes(pair: Pair, answers_A: Tensor) -> Tensor:
    """Changes of the answers' log-probabilities and the divergence, [rows, numbers]."""
    change = pair.row.log_p_of(answers_A.expand(len(pair.row.logits), -1)) - pair.ref.log_p_of(answers_A[None])
    return torch.cat([change, kl_from_reference(pair)[:, None]], dim=-1)


def _within(tokens: range, seen: range) -> range:
    """The tokens of a place that a patch can change and the prediction sees; may be empty."""
    return range(max(tokens.start, seen.start), min(tokens.stop, seen.stop))

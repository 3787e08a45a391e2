"""Translated lens: what the model's own readout makes of a boundary once a linear map has turned it to the last one.

The logit lens reads h_b as if it were h_L. Where the model keeps its answer in directions that only later blocks turn
to the readout, that shows nothing; an affine map h_b → h_L, fitted by least squares with a ridge penalty to other
prompts (``statistics.least_squares``), finds it. The first boundary after which the readout of the mapped stream has
the final top-1 token is the *decodable* depth; the lens gives the *readable* one of the same tokens. Decodable is not
yet used: a map also finds what no later block looks at.
Source: Din et al. 2023, linear shortcuts (maps by least squares); Belrose et al. 2023, tuned lens (trained ones).

Prompts are dealt out at random to fitting the maps, choosing their penalties, and reading. The first two parts are run
once before the first shard, in batches of their own, so that the maps are the same to the bit whatever shards there
are; prompts that are read have no forward but the survey's. Position 0, often an attention sink, is left out.

Suffixes: L boundaries but the last, D width, N tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Self

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.errors import OptionError, PromptError
from bathyscope.measures.answered import require_answers
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.finite import require_finite
from bathyscope.measures.normal_equations import NormalEquations
from bathyscope.measures.of.translated_lens import DECLARATION, TranslatedLensOptions
from bathyscope.measures.settling import at_boundaries, prediction_depth
from bathyscope.model.anatomy.plain import home_of, where_float64_is_known
from bathyscope.prompts.parts import copies_in
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.least_squares import RIDGE
from bathyscope.statistics.splits import FEWEST, Splits, require_shares, split
from bathyscope.wavefront.batch import Batch, plan_batches, within
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import BoundaryReader
from bathyscope.wavefront.probe import BaselineView, FinalStates

READERS = ("translated", "lens")
TOKENS_PER_VALUE = 4
"""Tokens to fit to for each value of a map's channel: with fewer its error on other tokens is mostly the fit's own."""

_METRICS = {"kl": "kl_from_reference", "top1_agreement": "top1_agreement"}
# what the states of a batch may take in float64, while sums are taken
_STATE_BYTES = 512 << 20


@dataclass(frozen=True)
class Translators:
    """The maps h_b ↦ ȳ + W_b'(h_b − x̄_b) of boundaries 0 … L−1, in float64.

    Args:
        penalties: the chosen ridge penalty of each.
        tokens: how many they are fitted to.
    """

    mean_x_LD: Tensor
    mean_y_D: Tensor
    weights_LDD: Tensor
    penalties: Sequence[float]
    tokens: int

    @classmethod
    def fit(
        cls,
        wave: Wavefront,
        prompts: Sequence[TokenizedPrompt],
        choosing: Sequence[TokenizedPrompt],
        positions: str,
    ) -> Self:
        """Return the maps of some prompts, with the penalties that are best on others, from plain forwards of both."""
        sums, held_out = (_sums(wave, part, positions) for part in (prompts, choosing))
        penalties = [
            penalty for b in range(len(wave.anatomy.boundaries) - 1) for penalty in sums.solve(b, held_out, RIDGE)
        ]
        # The weights have taken the place of the sums: room for one [D, D] of each boundary, not for two.
        return cls(sums.mean_x_SD, sums.mean_y_TE[0], sums.xy_STDE[:, 0], penalties, round(sums.count))

    def translate(self, boundary: int, resid_ND: Tensor) -> Tensor:
        """The states as they would be at L, [N, D], in their own dtype."""
        centred_ND = resid_ND.to(self.mean_y_D) - self.mean_x_LD[boundary]
        return (self.mean_y_D + centred_ND @ self.weights_LDD[boundary]).to(resid_ND)


def _sums(wave: Wavefront, prompts: Sequence[TokenizedPrompt], positions: str) -> NormalEquations:
    """Return what maps are fitted from, in batches of their own, so that no survey's cut changes them."""
    anatomy = wave.anatomy
    device = home_of(anatomy.model)
    widths = (anatomy.width, anatomy.width)
    sums = NormalEquations(len(anatomy.boundaries) - 1, 1, widths, where_float64_is_known(device))
    room = min(wave.policy.tokens, _STATE_BYTES // (8 * len(anatomy.boundaries) * anatomy.width))
    for picked in plan_batches([len(p) for p in prompts], 1, room, anatomy.equal_lengths):
        batch = Batch.of([prompts[i].ids for i in picked], device, [prompts[i].answer_tokens for i in picked])
        states = BoundaryReader(itemgetter(counted_tokens(batch, [True] * batch.size, positions)))
        wave.run(batch, [states])
        sums.add(states.taken[:-1], states.taken[-1:])
    return sums


class TranslatedLens(Measure[TranslatedLensOptions], declared=DECLARATION):
    """Readout at every boundary behind a linear map to the last one."""

    keeps_boundaries = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        different = list({prompt.ids: prompt for prompt in prompts}.values())
        if len(different) < FEWEST:
            return _too_few_prompts(len(different))
        fitted = len(self._split(different, 0).fit)
        # the seed decides which prompts are fitted to, and it must be possible with any
        shortest = sorted(map(self._count, different))[:fitted]
        return too_few_tokens(facts, shortest, len(prompts), "with as few as") or self._too_large(facts)

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if (different := len({prompt.ids for prompt in prompts})) < FEWEST:
            raise PromptError(f"translated_lens: {_too_few_prompts(different)}, or leave translated_lens out.")
        self.splits = self._split(prompts, seed)
        if self.options.positions == "answer":
            require_answers(self.name, prompts)
        few = too_few_tokens(facts, [self._count(prompts[i]) for i in self.splits.fit], len(prompts))
        if few is not None:
            raise PromptError(f"translated_lens: {few}, or leave translated_lens out.")
        large = self._too_large(facts)
        if large is not None:
            raise OptionError(f"translated_lens: {large}, or leave translated_lens out.")

    def read_reference(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> None:
        """The maps, from plain forwards of the prompts that are not read."""
        fitted, choosing = ([reference[i] for i in part] for part in (self.splits.fit, self.splits.choose))
        self.translators = Translators.fit(wave, fitted, choosing, self.options.positions)

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        return 1.0

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return self.options.test_share * (len(READERS) * (len(facts.boundaries) - 1) + 1.0)

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return TranslatedLensProbe(self, facts, batch, indices)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        means = merged["prediction_depth"].mean("prompt")
        data = {name: means.sel(reader=reader).values for name, reader in zip(("decodable", "readable"), READERS)}
        return DECLARATION.dataset(data, {})

    def _count(self, prompt: TokenizedPrompt) -> int:
        """Tokens of a prompt that are fitted to, or read."""
        return count_tokens(len(prompt), prompt.answer_tokens, self.options.positions)

    def _split(self, prompts: Sequence[TokenizedPrompt], seed: int) -> Splits:
        require_shares(self.options.choose_share, self.options.test_share, f"{self.name}: ")
        # what is read is no copy of what was fitted to
        return split(len(prompts), self.options.choose_share, self.options.test_share, seed, copies_in(prompts))

    def _too_large(self, facts: ModelFacts) -> str | None:
        width = facts.anatomy.width
        # of the tokens that are fitted to, and of those that penalties are chosen by
        maps = len(facts.boundaries) - 1
        size = 2 * maps * NormalEquations.bytes(1, (width, width)) / 2**30
        if size <= self.options.memory:
            return None
        return (
            f"the sums for {maps} maps of width {width} take {size:.3g} GiB, more than memory="
            f"{self.options.memory:g}; allow more, where the machine has it"
        )


class TranslatedLensProbe(MeasureProbe):
    """Keeps the boundaries of the prompts that are read, and reads them as they are and behind their maps."""

    def __init__(self, measure: TranslatedLens, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        super().__init__()
        self._facts, self._translators, positions = facts, measure.translators, measure.options.positions
        test = measure.splits.test
        read = [i in test for i in indices]
        # penalties are told with the first prompt of the survey that is read
        self._first = test[0] in indices
        # from what the host knows: to ask the mask would be a wait for the device
        sizes = zip(batch.lengths, batch.answers, read, strict=True)
        self._tokens = [count_tokens(length, answer, positions) * is_read for length, answer, is_read in sizes]
        self._read_BT = counted_tokens(batch, read, positions)
        self._states: list[Tensor] = []
        self._results: dict[str, Tensor] = {}

    def baseline(self, view: BaselineView) -> None:
        if any(self._tokens):
            self._states.append(view.before_BTD[self._read_BT])

    def finish(self, final: FinalStates) -> None:
        if not any(self._tokens):
            return
        last_ND = final.baseline_BTD[self._read_BT]
        mapped = [self._translators.translate(b, state_ND) for b, state_ND in enumerate(self._states)]
        rows, metrics = [*mapped, last_ND, *self._states, last_ND], tuple(_METRICS.values())
        comparison = compare(final.reader, last_ND, rows, metrics)
        self._results = {name: comparison[metric].unflatten(0, (len(READERS), -1)) for name, metric in _METRICS.items()}
        require_finite("A lens", [self._results["kl"]])
        agreement = self._results["top1_agreement"]
        self._results["prediction_depth"] = torch.stack(
            [at_boundaries(prediction_depth(of_reader), self._facts.boundaries) for of_reader in agreement]
        )
        self._states.clear()

    def result(self) -> xr.Dataset:
        boundaries = np.array(self._facts.boundaries)
        shapes = {**dict.fromkeys(_METRICS, (len(READERS), len(boundaries))), "prediction_depth": (len(READERS),)}
        data = {name: self._by_prompt(name, shape) for name, shape in shapes.items()}
        data["n_averaged"] = np.array(self._tokens, dtype=np.int64)
        # A property of the run in results by prompt: the batch with the first read prompt gives it, all others zeros.
        data["ridge"] = np.array([*self._translators.penalties, 0.0]) * self._first
        dataset = DECLARATION.dataset(data, {"reader": list(READERS), "boundary": boundaries})
        dataset["ridge"].attrs["merge"] = "sum"
        dataset.attrs["fit_tokens"] = self._translators.tokens
        return dataset

    def _by_prompt(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Means over each prompt's tokens; NaN for a prompt that is not read."""
        means = np.full((len(self._tokens), *shape), np.nan)
        pieces = self._results[name].split(self._tokens, dim=-1) if self._results else ()
        for prompt, piece in enumerate(pieces):
            means[prompt] = piece.mean(-1).cpu().numpy()
        return means


def count_tokens(length: int, answer: int | None, positions: str) -> int:
    """Return how many tokens of a prompt are fitted to, or read."""
    return length - 1 if positions == "all" else answer or 0


def counted_tokens(batch: Batch, chosen: Sequence[bool], positions: str) -> Tensor:
    """True at the real tokens of the chosen prompts but their first, or where their answers are predicted: [B, T]."""
    device = batch.ids_BT.device
    every = positions == "all"
    counted_BT = within(batch.tokens, 1, batch.lengths, device) if every else batch.predicting(answer=True)
    return counted_BT & torch.tensor(list(chosen), device=device)[:, None]


def _too_few_prompts(n_prompts: int) -> str:
    return (
        f"it needs at least {FEWEST} different prompts (to fit maps to, to choose their penalties by, and two to "
        f"read); {n_prompts} given; give more"
    )


def too_few_tokens(facts: ModelFacts, counts: Sequence[int], prompts: int, with_: str = "with") -> str | None:
    """Why maps cannot be fitted to these prompts, of which so few tokens count; None where they can."""
    values, n_tokens = facts.anatomy.width + 1, sum(counts)
    if n_tokens >= TOKENS_PER_VALUE * values:
        return None
    return (
        f"maps of a stream of width {values - 1} need at least {TOKENS_PER_VALUE * values} tokens to be fitted to "
        f"({TOKENS_PER_VALUE} for each of a channel's {values} values; position 0 left out); there are {len(counts)} "
        f"of {prompts} prompts for it, {with_} {n_tokens}; give more or longer prompts"
    )

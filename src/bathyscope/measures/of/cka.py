"""CKA: how similar are the representations of two boundaries, whatever rotation or scale lies between them?

Every boundary's representations of the same points are compared by unbiased HSIC, summed over minibatches (see
``statistics.hsic`` for the formulas). The points are the prompts' last tokens, or tokens drawn from all of them.
Source: lad2024, representational similarity.

A minibatch is a group of neighbouring prompts of the survey, whatever shard they are computed in, and is run by
itself when its first prompt's turn comes: so the result depends neither on ``batch_tokens`` nor on interruptions,
and no representation needs to be kept. That costs one more plain forward a prompt. Copies of a prompt count once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from bathyscope.core.common_options import Level
from bathyscope.core.descriptions import described
from bathyscope.errors import OptionError, warn
from bathyscope.labels import Label, interval
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.observer import BoundaryReader

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from bathyscope.core.arrays import IntArray
    from bathyscope.statistics.hsic import Array, HsicSums
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront

GROUPS: Final = 16
"""Groups of prompts of a minibatch that are left out one at a time for the interval."""
_label = partial(Label, source="lad2024, representational similarity")
_pairs = partial(_label, "tokens boundary boundary_other")


@described
@dataclass(frozen=True)
class CkaOptions:
    """Options of CKA.

    Args:
        batch: prompts of a minibatch, at most; all minibatches are of nearly equal size.
        tokens_batch: how many tokens of a minibatch's prompts are drawn for the comparison of tokens.
    """

    batch: Annotated[int, Range(4, 4096)] = 128
    tokens_batch: Annotated[int, Range(16, 8192)] = 512
    level: Level = 0.95


DECLARATION: Final = Declaration(
    "cka",
    "Similarity of representations between all pairs of boundaries.",
    CkaOptions,
    {
        "hsic": _pairs("unbiased HSIC of two boundaries, summed over minibatches", formula="Σ HSIC₁(K_b, K_b')"),
        "hsic_covariance": _label(
            "term tokens boundary boundary_other",
            "sampling covariance of HSIC₁, summed over minibatches",
            formula=f"jackknife over at most {GROUPS} groups of prompts",
        ),
        "cka": _pairs(
            "CKA: similarity of the representations at two boundaries",
            formula="Σ HSIC₁(K_b, K_b') / √(Σ HSIC₁(K_b, K_b) · Σ HSIC₁(K_b', K_b')), sums over minibatches",
            direction="1 = the same up to rotation and scale, 0 = unrelated",
        ),
        **interval(
            "ci",
            _pairs,
            "the {percent=95 %} interval of the CKA",
            formula="tanh(artanh CKA ± Student's quantile × its standard error), by a jackknife over groups of prompts",
        ),
    },
    order=170,
    synonyms=("representation_similarity", "centred_kernel_alignment", "centered_kernel_alignment"),
    panels={"last": ("cka",), "all": ("cka",), "rest": ("cka",), "neighbours": ("cka",)},
    question="which boundaries are alike?",
    rows="a plain forward",
    needs="boundaries",
)


TOKENS = ("last", "all", "rest")
"""Kinds of points: prompts' last tokens; tokens drawn from all; those of the drawn ones that are no prompt's first."""

_TERMS = ("pair_pair", "pair_own", "own_own")


@dataclass(frozen=True)
class Minibatch:
    """Some neighbouring prompts, and the tokens sampled from them.

    Args:
        first: number of its first prompt in the survey.
        sampled: per prompt the positions of its sampled tokens.
    """

    first: int
    prompts: tuple[TokenizedPrompt, ...]
    sampled: tuple[tuple[int, ...], ...]

    @property
    def positions(self) -> list[tuple[int, int]]:
        """(prompt, position) of every point: the last tokens, then the drawn ones."""
        last = [(number, len(prompt) - 1) for number, prompt in enumerate(self.prompts)]
        return last + [(number, position) for number, positions in enumerate(self.sampled) for position in positions]

    def points(self, tokens: str) -> list[int]:
        """Which of ``positions`` are of a kind."""
        prompts, positions = len(self.prompts), self.positions
        if tokens == "last":
            return list(range(prompts))
        return [i for i in range(prompts, len(positions)) if tokens == "all" or positions[i][1] > 0]

    def groups(self, tokens: str) -> list[list[int]]:
        """Points of a kind, as places among them, by group of prompts."""
        from bathyscope.statistics.hsic import even_groups

        positions = self.positions
        owners = [positions[point][0] for point in self.points(tokens)]
        places_by_group = [
            [i for i, owner in enumerate(owners) if owner in group] for group in even_groups(len(self.prompts), GROUPS)
        ]
        return [group for group in places_by_group if group]


class Cka(Measure[CkaOptions], declared=DECLARATION):
    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        few = _too_few(prompts)
        return f"it needs at least {few}" if few else None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self.minibatches = minibatches(prompts, self.options, seed)

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        return 1.0

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return CkaProbe(facts, [minibatch for minibatch in self.minibatches if minibatch.first in indices])

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        degrees = [sum(max(len(m.groups(kind)) - 1, 0) for m in self.minibatches) for kind in TOKENS]
        sums = {
            kind: _restored(merged["hsic"].values[i], merged["hsic_covariance"].values[:, i], degrees[i])
            for i, kind in enumerate(TOKENS)
        }
        return similarities(sums, self.options.level, facts.boundaries)


class CkaProbe(MeasureProbe):
    """Runs the minibatches that begin in one batch of the survey."""

    def __init__(self, facts: ModelFacts, begun: Sequence[Minibatch]) -> None:
        import numpy as np

        super().__init__()
        self._minibatches = begun
        self._boundaries = np.array(facts.boundaries)
        self._hsic = np.zeros((len(TOKENS), len(facts.boundaries), len(facts.boundaries)))
        self._covariance = np.zeros((len(_TERMS), *self._hsic.shape))

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        from bathyscope.statistics.hsic import minibatch_sums

        # Sums of minibatches are added, here and between shards; the ratio is taken once, of the sums of the whole run.
        for done, minibatch in enumerate(self._minibatches, start=1):
            points_LND = representations(wave, minibatch)
            for kind, tokens in enumerate(TOKENS):
                points = ChosenPoints(points_LND, minibatch.points(tokens))
                sums = minibatch_sums(points, points, minibatch.groups(tokens))
                self._hsic[kind] += sums.values[0]
                # Of one model with itself these three say all nine: the others are their transposes and diagonals.
                self._covariance[:, kind] += sums.covariance[[0, 0, 1], [0, 1, 2]]
            step(done / len(self._minibatches))

    def result(self) -> xr.Dataset:

        index = self._boundaries
        coords = {"tokens": list(TOKENS), "term": list(_TERMS), "boundary": index, "boundary_other": index}
        dataset = DECLARATION.dataset({"hsic": self._hsic, "hsic_covariance": self._covariance}, coords)
        for values in dataset.data_vars.values():
            values.attrs["merge"] = "sum"
        return dataset


def different(prompts: Sequence[TokenizedPrompt], copies: IntArray | None = None) -> list[int]:
    """Return the places of the prompts that are compared: of copies the first alone.

    HSIC is unbiased since it leaves out each point's product with itself; a copy would bring that in again.

    Args:
        copies: for each prompt a number that its copies share; None = by their tokens.
    """
    import numpy as np

    from bathyscope.prompts.parts import copies_in

    numbers = copies_in(prompts) if copies is None else copies
    return list(range(len(prompts))) if numbers is None else sorted(np.unique(numbers, return_index=True)[1].tolist())


def _too_few(prompts: Sequence[TokenizedPrompt], copies: IntArray | None = None) -> str:
    """Return how many prompts are needed and how many are given; empty where there are enough that differ."""
    from bathyscope.statistics.hsic import FEWEST

    count = len(different(prompts, copies))
    if count >= FEWEST:
        return ""
    return f"{FEWEST} prompts; {count if count == len(prompts) else f'{count} different of {len(prompts)}'} given"


def minibatches(
    prompts: Sequence[TokenizedPrompt], options: CkaOptions, seed: int, copies: IntArray | None = None
) -> list[Minibatch]:
    """Divide the different prompts, in order, into groups of nearly equal size with at least four prompts each.

    Tokens are drawn without replacement; all tokens of a minibatch have the same chance.

    Args:
        copies: as for :func:`different`.

    Raises:
        OptionError: too few prompts that differ, or too few tokens drawn.
    """
    import numpy as np

    from bathyscope.statistics.hsic import FEWEST, even_groups

    if few := _too_few(prompts, copies):
        raise OptionError(
            f"cka compares prompts by their last tokens and needs at least {few}. Give more prompts, or leave cka out."
        )

    places = different(prompts, copies)
    pieces = max(1, min(-(-len(places) // options.batch), len(places) // FEWEST))
    batches = []
    for number, group in enumerate(even_groups(len(places), pieces)):
        picked = [places[i] for i in group]
        batch_prompts = tuple(prompts[i] for i in picked)
        ends = np.cumsum([len(prompt) for prompt in batch_prompts])
        size = min(options.tokens_batch, ends[-1])
        # A seed of its own for each minibatch: the same tokens whichever shard computes it.
        sampled_tokens = np.sort(np.random.default_rng([seed, number]).choice(ends[-1], size, replace=False))
        by_prompt = np.split(sampled_tokens, np.searchsorted(sampled_tokens, ends[:-1]))
        positions = tuple(tuple((tokens - start).tolist()) for tokens, start in zip(by_prompt, (0, *ends)))
        batches.append(Minibatch(picked[0], batch_prompts, positions))
        if len(batches[-1].points("rest")) < FEWEST:
            raise OptionError(
                f"cka: of {size} drawn tokens fewer than {FEWEST} are not the first of a prompt; raise tokens_batch."
            )
    return batches


def representations(wave: Wavefront, minibatch: Minibatch) -> Tensor:
    """The residual stream of a minibatch's points at all boundaries, [L+1, points, width], from plain forwards."""
    import torch

    from bathyscope.model.anatomy.plain import home_of
    from bathyscope.wavefront.batch import Batch, plan_batches

    anatomy = wave.anatomy
    device = home_of(anatomy.model)
    lengths = [len(prompt) for prompt in minibatch.prompts]
    states_LND: Tensor | None = None
    for picked in plan_batches(lengths, 1, wave.policy.tokens, anatomy.equal_lengths):
        row_of = {prompt: row for row, prompt in enumerate(picked)}
        points_of_batch = [
            (i, row_of[p], position) for i, (p, position) in enumerate(minibatch.positions) if p in row_of
        ]
        points = BoundaryReader.of_tokens([place for _, *place in points_of_batch], device)
        wave.run(Batch.of([minibatch.prompts[p].ids for p in picked], device), [points])
        if states_LND is None:
            first = points.taken[0]
            states_LND = torch.empty(len(points.taken), len(minibatch.positions), first.shape[-1], dtype=first.dtype)
        # batches go by length; each point has its place in the order of the minibatch
        places = [i for i, _, _ in points_of_batch]
        for states_ND, taken_ND in zip(states_LND, points.taken, strict=True):
            states_ND[places] = taken_ND.cpu()
    assert states_LND is not None
    return states_LND


@dataclass(frozen=True, eq=False)
class ChosenPoints:
    """Points of a kind at all boundaries, [N, width] each, in float64 while they are looked at alone.

    Args:
        points_LND: of all kinds, in the dtype of the model.
        chosen: which of them.
    """

    points_LND: Tensor
    chosen: Sequence[int]

    def __len__(self) -> int:
        return len(self.points_LND)

    def __getitem__(self, boundary: int, /) -> Array:
        points: Array = self.points_LND[boundary, list(self.chosen)].double().numpy()
        return points


def similarities(sums: Mapping[str, HsicSums], level: float, boundaries: Sequence[int] | None = None) -> xr.Dataset:
    """CKA and its interval by kind of points.

    Args:
        boundaries: of one model, where they are not all; None = all.
    """
    import numpy as np

    from bathyscope.statistics.hsic import cka as ratio

    cka_of = {kind: ratio(kind_sums, level) for kind, kind_sums in sums.items()}
    ends = {"cka": "values", "ci_low": "low", "ci_high": "high"}
    data = {name: np.stack([getattr(estimate, field) for estimate in cka_of.values()]) for name, field in ends.items()}
    equal = [kind for kind, values in zip(cka_of, data["cka"]) if np.isnan(values).all()]
    if equal:
        warn(
            f"cka: no boundary has a CKA (tokens: {', '.join(equal)}), because the compared points are all equal; give "
            "prompts that differ."
        )
    first, second = data["cka"].shape[1:]
    index = [np.arange(count) if boundaries is None else np.array(boundaries) for count in (first, second)]
    coords = {"tokens": list(cka_of), "boundary": index[0], "boundary_other": index[1]}
    labelled = DECLARATION.dataset(data, coords, percent=f"{100 * level:g} %")
    for end in ("ci_low", "ci_high"):
        labelled[end].attrs["level"] = str(level)
    return labelled


def _restored(hsic_LL: Array, terms_KLL: Array, degrees_of_freedom: int) -> HsicSums:
    """The sums of one model with itself, in which a pair's other half is its mirror image."""
    import numpy as np

    from bathyscope.statistics.hsic import HsicSums

    pair, mixed, shared = terms_KLL
    size = np.diagonal(hsic_LL)
    variance = np.diagonal(shared)
    values = np.stack(np.broadcast_arrays(hsic_LL, size[:, None], size[None, :]))
    first, second = np.broadcast_arrays(variance[:, None], variance[None, :])
    covariance = np.array([[pair, mixed, mixed.T], [mixed, first, shared], [mixed.T, shared.T, second]])
    return HsicSums(values, covariance, degrees_of_freedom)

"""Choosing what can go: cheap baselines, and a search whose candidates are measured on the calibration prompts.

Two of the baselines leave nothing out: block influence, and the angle over a window at the last token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.arrays import FloatArray
from bathyscope.surgery.ledger import Ledger
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import History, Unit, without
from bathyscope.wavefront.probe import BaselineView, Probe


@dataclass(frozen=True)
class Influence:
    """Two published scores of how little blocks do.

    Args:
        units: unit → 1 − mean cosine, over all tokens, of the stream behind it with and without what it adds. For a
            block that is its output and input. Source: ShortGPT (block influence).
        angles: [boundaries, boundaries], mean over prompts of the angle between the stream at two boundaries at the
            last token, over π. Source: Gromov et al. (angular distance).
    """

    units: dict[Unit, float]
    angles: FloatArray

    def least(self, count: int) -> frozenset[Unit]:
        """The units of least influence, earlier ones first where equal."""
        return frozenset(sorted(self.units, key=lambda unit: (self.units[unit], unit))[:count])

    def window(self, count: int) -> frozenset[Unit]:
        """The ``count`` consecutive blocks over which the stream turns least."""
        starts = range(len(self.angles) - count)
        first = min(starts, key=lambda start: (self.angles[start, start + count], start))
        return frozenset(Unit(block) for block in range(first, first + count))


def influence(wave: Wavefront, batches: Sequence[Batch], units: Sequence[Unit]) -> Influence:
    """Both scores from one plain forward of every batch."""
    probe = _Cosines(units, wave.anatomy.n_blocks + 1)
    for batch in batches:
        probe.batch = batch
        wave.run(batch, [probe])
    return Influence({unit: 1 - total / probe.tokens for unit, total in probe.totals.items()}, probe.angles())


class _Cosines(Probe):
    """Sums over batches.

    Args:
        boundaries: L + 1.
    """

    batch: Batch

    def __init__(self, units: Sequence[Unit], boundaries: int) -> None:
        super().__init__(wants_parts=any(unit.part != "block" for unit in units))
        self.totals = dict.fromkeys(units, 0.0)
        self.tokens = self._prompts = 0
        self._last: list[Tensor] = []
        self._angles = np.zeros((boundaries, boundaries))

    def baseline(self, view: BaselineView) -> None:
        after = view.after_BTD.double()
        added = {"block": view.after_BTD - view.before_BTD, "attention": view.attention_BTD, "mlp": view.mlp_BTD}
        for unit in self.totals:
            part = added[unit.part] if unit.block == view.block else None
            if part is not None:
                cosine_BT = torch.cosine_similarity(after, after - part.double(), dim=-1)
                self.totals[unit] += float(cosine_BT[self.batch.valid_BT].sum())
        if view.block == 0:
            self.tokens, self._prompts = self.tokens + sum(self.batch.lengths), self._prompts + self.batch.size
            self._last = [self._at_last(view.before_BTD)]
        self._last.append(self._at_last(view.after_BTD))
        if len(self._last) == len(self._angles):
            directions_BLD = torch.nn.functional.normalize(torch.stack(self._last, dim=1), dim=-1)
            cosines = (directions_BLD @ directions_BLD.mT).clamp(-1, 1)
            self._angles += (cosines.arccos() / torch.pi).sum(0).cpu().numpy()

    def angles(self) -> FloatArray:
        """Means over the prompts that have been shown."""
        return self._angles / self._prompts

    def _at_last(self, resid_BTD: Tensor) -> Tensor:
        rows = torch.arange(self.batch.size, device=resid_BTD.device)
        return resid_BTD[rows, torch.tensor(self.batch.lengths, device=resid_BTD.device) - 1].double()


Subset = frozenset[Unit]
_WIDTH: Final = 2048
"""Subsets of each size that are followed; where there are no more of them, nothing is missed."""


@dataclass(frozen=True)
class Surrogate:
    """cost(S) ≈ Σ_a cost({a}) + Σ_{a<b} interaction(a, b).

    Args:
        units: what may be left out.
        single: [units], their costs alone.
        interaction: [units, units], cost({a, b}) − cost({a}) − cost({b}), symmetric, 0 on the diagonal.
    """

    units: tuple[Unit, ...]
    single: FloatArray
    interaction: FloatArray

    def cost(self, subset: Subset) -> float:
        """What is foretold of one subset."""
        own = [place for place, unit in enumerate(self.units) if unit in subset]
        return float(self.single[own].sum() + self.interaction[np.ix_(own, own)].sum() / 2)

    def cheapest(self, size: int, count: int) -> list[Subset]:
        """The ``count`` subsets of a size that are foretold to cost least, cheapest first.

        Found size by size from the cheapest of each: exactly, while no size has more than some thousand subsets.
        """
        chosen, costs = np.zeros((1, len(self.units)), dtype=bool), np.zeros(1)
        for _ in range(size):
            longer = costs[:, None] + self.single + chosen @ self.interaction
            parent, added = np.nonzero(~chosen)
            subsets = chosen[parent]
            subsets[np.arange(len(parent)), added] = True
            # one subset arises from each of its members; in exact order, so that equal costs decide nothing by chance
            _, first = np.unique(np.packbits(subsets, axis=1), axis=0, return_index=True)
            order = first[np.argsort(longer[parent, added][first].round(12), kind="stable")][:_WIDTH]
            chosen, costs = subsets[order], longer[parent, added][order]
        return [frozenset(self.units[place] for place in np.flatnonzero(row)) for row in chosen[:count]]


def exchanges(subset: Subset, units: Sequence[Unit]) -> list[Subset]:
    """All subsets in which one unit has given its place to another."""
    return [subset - {out} | {into} for out in sorted(subset) for into in units if into not in subset]


CHOICE: Final = "choice"
BLOCK_INFLUENCE: Final = "block influence"
ANGULAR: Final = "angular distance"
ONE_SHOT: Final = "one-shot loss"
GREEDY: Final = "greedy"
SURROGATE: Final = "pair surrogate"
LAST: Final = "last"
RANDOM: Final = "random"
_MOST_SUBSETS: Final = 200_000
"""Beyond so many subsets they are not even listed."""
_ROUNDS: Final = 4
"""Of exchanging one unit of the cheapest subset."""


@dataclass(frozen=True)
class Found:
    """The candidates of one size, by name; a candidate of several subsets stands for their mean.

    Args:
        how: what the search looked at, in words.
        exhaustive: every subset was measured.
    """

    candidates: dict[str, tuple[Subset, ...]]
    how: str
    exhaustive: bool

    @property
    def choice(self) -> Subset:
        """What is chosen."""
        return self.candidates[CHOICE][0]


class Search:
    """Candidates of any size on one ledger.

    Args:
        ledger: of the calibration prompts.
        units: what may be left out.
        budget: calls of a block, on every batch of prompts, up to which all subsets, or all pairs, are measured.
        measured: how many of the subsets that the surrogate favours are measured.
        random: subsets drawn at random, as a baseline.
        seed: of drawing them.
        exhaustive: all subsets of a size are measured where the budget allows it.
    """

    def __init__(
        self,
        ledger: Ledger,
        units: Sequence[Unit],
        *,
        budget: int,
        measured: int,
        random: int,
        seed: int,
        exhaustive: bool = True,
    ) -> None:
        self._ledger, self.units = ledger, tuple(units)
        self._budget, self._measured, self._random, self._seed = budget, measured, random, seed
        self._exhaustive = exhaustive
        self._influence: Influence | None = None
        self._surrogate: Surrogate | None = None
        self._path: list[Subset] = [frozenset()]
        self.has_pairs = False

    def costs(self, subsets: Sequence[Subset], title: str) -> FloatArray:
        """Mean cost of each subset on the calibration prompts."""
        return self._ledger.values("calibration", self._histories(subsets), title=title)["loss"].mean(axis=1)

    def find(self, size: int) -> Found:
        """The baselines and the choice among subsets of a size.

        The choice is the cheapest of all subsets of this size that were measured, baselines included.
        """
        baselines = self._baselines(size)
        every = self._every(size) if self._exhaustive else None
        if every is not None:
            pool, how = every, f"all {len(every):,} subsets were measured"
        else:
            pool, how = self._near(size, [own[0] for own in baselines.values() if len(own) == 1])
        costs = self.costs(pool, f"measuring {len(pool)} subsets")
        choice = pool[int(np.argmin(costs))]
        return Found({CHOICE: (choice,), **baselines}, how, every is not None)

    def greedy(self, size: int) -> Subset:
        """One unit at a time, each time the one whose loss costs least beside those that are gone. Source: SLEB."""
        while len(self._path) <= size:
            gone = self._path[-1]
            further = [gone | {unit} for unit in self.units if unit not in gone]
            costs = self.costs(further, f"leaving out a further one of {len(further)}")
            self._path.append(further[int(np.argmin(costs))])
        return self._path[size]

    @property
    def surrogate(self) -> Surrogate:
        """From single units and pairs; from single units alone where pairs are beyond the budget."""
        if self._surrogate is None:
            units, size = self.units, len(self.units)
            singles: list[Subset] = [frozenset([unit]) for unit in units]
            pairs: list[Subset] = [frozenset(pair) for pair in combinations(units, 2)]
            interaction = np.zeros((size, size))
            self.has_pairs = self._fits([*singles, *pairs])
            if self.has_pairs:
                costs = self.costs([*singles, *pairs], f"measuring {len(pairs)} pairs")
                single = costs[:size]
                for (a, b), cost in zip(combinations(range(size), 2), costs[size:]):
                    interaction[a, b] = interaction[b, a] = cost - single[a] - single[b]
            else:
                single = self.costs(singles, f"measuring {size} alone")
            self._surrogate = Surrogate(units, single, interaction)
        return self._surrogate

    def _baselines(self, size: int) -> dict[str, tuple[Subset, ...]]:
        surrogate = self.surrogate
        if self._influence is None:
            self._influence = influence(self._ledger.wave, self._ledger.batches("calibration"), self.units)
        order = np.argsort(surrogate.single, kind="stable")[:size]
        found: dict[str, tuple[Subset, ...]] = {BLOCK_INFLUENCE: (self._influence.least(size),)}
        if all(unit.part == "block" for unit in self.units):
            window = self._influence.window(size)
            if window <= set(self.units):
                found[ANGULAR] = (window,)
        found[ONE_SHOT] = (frozenset(self.units[place] for place in order),)
        found[GREEDY] = (self.greedy(size),)
        found[SURROGATE] = (surrogate.cheapest(size, 1)[0],)
        found[LAST] = (frozenset(self.units[-size:]),)
        rng = np.random.default_rng([self._seed, size])
        drawn = (rng.choice(len(self.units), size, replace=False) for _ in range(self._random))
        found[RANDOM] = tuple(frozenset(self.units[place] for place in own) for own in drawn)
        return found

    def _every(self, size: int) -> list[Subset] | None:
        """All subsets of a size, where measuring them fits the budget."""
        if math.comb(len(self.units), size) > min(self._budget, _MOST_SUBSETS):
            return None  # the end of each history is a call of its own
        every: list[Subset] = [frozenset(own) for own in combinations(self.units, size)]
        return every if self._fits(every) else None

    def _near(self, size: int, baselines: Sequence[Subset]) -> tuple[list[Subset], str]:
        """What the surrogate favours, the baselines, and exchanges in the cheapest of them."""
        pool = list(dict.fromkeys([*self.surrogate.cheapest(size, self._measured), *baselines]))
        for _ in range(_ROUNDS):
            costs = self.costs(pool, f"measuring {len(pool)} subsets")
            best = pool[int(np.argmin(costs))]
            near = sorted(exchanges(best, self.units), key=self.surrogate.cost)
            new = [subset for subset in near if subset not in pool][: self._measured]
            if not new:
                break
            gained = self.costs(new, f"measuring {len(new)} exchanges").min() < costs.min()
            pool += new
            if not gained:
                break
        what = "pairs" if self.has_pairs else "single ones"
        return pool, f"{len(pool):,} subsets were measured, chosen by the costs of {what}, greedily and by exchanges"

    def _fits(self, subsets: Sequence[Subset]) -> bool:
        return self._ledger.planned("calibration", self._histories(subsets)) <= self._budget

    def _histories(self, subsets: Sequence[Subset]) -> list[History]:
        return [without(self._ledger.model.n_blocks, subset) for subset in subsets]

"""Choosing what can go: cheap baselines, and a search whose candidates are measured on the calibration prompts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import ModelError
from bathyscope.statistics.strata import Strata
from bathyscope.surgery.choosing.influence import Influence, measure_influence
from bathyscope.surgery.plan.at_random import RANDOM
from bathyscope.surgery.trial.ledger import Ledger
from bathyscope.wavefront.histories import History, Unit, without

Subset = frozenset[Unit]
# Subsets of each size that are followed; where there are no more of them, nothing is missed.
_WIDTH: Final = 2048


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
        """Predict the cost of one subset."""
        members = [place for place, unit in enumerate(self.units) if unit in subset]
        # symmetric, so that each pair is in the matrix twice
        return float(self.single[members].sum() + self.interaction[np.ix_(members, members)].sum() / 2)

    def cheapest(self, size: int, count: int) -> list[Subset]:
        """Return the ``count`` subsets of a size that are predicted to cost least, cheapest first.

        They are found size by size from the cheapest of each: exactly, while no size has more than some thousand.
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
    """Return all subsets in which one unit has given its place to another."""
    return [subset - {out} | {into} for out in sorted(subset) for into in units if into not in subset]


def place_of_cheapest(costs: FloatArray) -> int:
    """Return which cost is the smallest, the first of equal ones; one that is NaN is none.

    Raises:
        ModelError: all are NaN.
    """
    if np.isnan(costs).all():
        raise ModelError(
            f"The loss is not a number without any of the {len(costs)} subsets that were tried, so none can be chosen. "
            "Load the model in float32 (--dtype float32)."
        )
    return int(np.nanargmin(costs))


CHOICE: Final = "choice"
CHOICE_FROM: Final = "choice from {domain}"
BLOCK_INFLUENCE: Final = "block influence"
ANGULAR: Final = "angular distance"
ONE_SHOT: Final = "one-shot loss"
GREEDY: Final = "greedy"
SURROGATE: Final = "pair surrogate"
LAST: Final = "last"
# Beyond this many subsets they are not even listed.
_MOST_SUBSETS: Final = 200_000
# Of exchanging one unit of the cheapest subset.
_ROUNDS: Final = 4


@dataclass(frozen=True)
class Candidates:
    """The candidates of one size.

    Args:
        subsets: by the candidate's name; one of several subsets stands for their mean.
        how: what the search looked at, in words.
        exhaustive: every subset was measured.
        pool: all subsets that were measured to find the choice, each once; empty where the choice is from elsewhere.
    """

    subsets: dict[str, tuple[Subset, ...]]
    how: str
    exhaustive: bool
    pool: tuple[Subset, ...] = ()

    @property
    def choice(self) -> Subset:
        """What is chosen."""
        return self.subsets[CHOICE][0]


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
        domains: names of the domains of the calibration prompts; each has a choice of its own.
        strata: which domain each calibration prompt is of, and how a joint choice weighs them; None = no domains.
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
        domains: Sequence[str] = (),
        strata: Strata | None = None,
    ) -> None:
        self._ledger = ledger
        self.units = tuple(units)
        self._budget, self._measured, self._random, self._seed = budget, measured, random, seed
        self._exhaustive = exhaustive
        self._domains, self._strata = tuple(domains), strata
        self._influence: Influence | None = None
        self._surrogates: dict[int | None, Surrogate] = {}
        self._path: list[Subset] = [frozenset()]
        self.has_pairs = False

    def costs(self, subsets: Sequence[Subset], title: str, domain: int | None = None) -> FloatArray:
        """Return the mean cost of each subset on the calibration prompts.

        Args:
            domain: number of the only domain that counts; None = all of them.
        """
        losses_SP = self.losses(subsets, title)
        if self._strata is None:
            return losses_SP.mean(axis=1)
        if domain is None:
            return self._strata.combine(losses_SP)
        return losses_SP[:, self._strata.number_P == domain].mean(axis=1)

    def losses(self, subsets: Sequence[Subset], title: str = "measuring") -> FloatArray:
        """Return the cost of each subset on each calibration prompt, [subsets, prompts]."""
        return self._ledger.values("calibration", self._histories(subsets), title=title)["loss"]

    def find(self, size: int) -> Candidates:
        """Return the baselines and the choice among subsets of a size.

        The choice is the cheapest of all subsets of this size that were measured, baselines included, and so is the
        choice from each domain, by the costs on that domain alone.
        """
        surrogate = self.surrogate  # what it measures leaves less to measure for all subsets of a size
        every = self._list_subsets(size) if self._exhaustive else None
        baselines = self._find_baselines(size, surrogate, every)
        if every is not None:
            pool = every
            how = f"all {len(every):,} subsets were measured"
        else:
            single = [subsets[0] for subsets in baselines.values() if len(subsets) == 1]
            pool = self._search_near(size, single)
            for domain in range(len(self._domains)):
                # what is good for one domain alone may be far from what is good for all
                pool = list(dict.fromkeys([*pool, *self._search_near(size, single, domain)]))
            what = "pairs" if self.has_pairs else "single ones"
            how = f"{len(pool):,} subsets were measured, chosen by the costs of {what}, greedily and by exchanges"
        title = f"measuring {len(pool)} subsets"
        choices = {CHOICE: (pool[place_of_cheapest(self.costs(pool, title))],)}
        for domain, name in enumerate(self._domains):
            cheapest = pool[place_of_cheapest(self.costs(pool, title, domain))]
            choices[CHOICE_FROM.format(domain=name)] = (cheapest,)
        return Candidates({**choices, **baselines}, how, every is not None, tuple(pool))

    def greedy(self, size: int) -> Subset:
        """Leave out one unit at a time: the one that costs least together with the earlier ones. Source: SLEB."""
        # The path to a larger size passes through all smaller ones, which are not searched again.
        while len(self._path) <= size:
            further = self._further(len(self._path))
            costs = self.costs(further, f"leaving out a further one of {len(further)}")
            self._path.append(further[place_of_cheapest(costs)])
        return self._path[size]

    def _further(self, size: int) -> list[Subset]:
        """Return what greedy dropping chooses from at a size: the subset before it, each time with a further unit."""
        earlier = self.greedy(size - 1)
        return [earlier | {unit} for unit in self.units if unit not in earlier]

    @property
    def surrogate(self) -> Surrogate:
        """From single units and pairs; from single units alone where pairs are beyond the budget."""
        return self._surrogate_of(None)

    def _surrogate_of(self, domain: int | None) -> Surrogate:
        """Return the surrogate of the costs on one domain, or on all; all of them need the same calls."""
        if domain not in self._surrogates:
            units = self.units
            size = len(self.units)
            singles: list[Subset] = [frozenset([unit]) for unit in units]
            pairs: list[Subset] = [frozenset(pair) for pair in combinations(units, 2)]
            interaction = np.zeros((size, size))
            self.has_pairs = self._fits([*singles, *pairs])
            if self.has_pairs:
                costs = self.costs([*singles, *pairs], f"measuring {len(pairs)} pairs", domain)
                single = costs[:size]
                for (a, b), cost in zip(combinations(range(size), 2), costs[size:]):
                    interaction[a, b] = interaction[b, a] = cost - single[a] - single[b]
            else:
                single = self.costs(singles, f"measuring {size} alone", domain)
            self._surrogates[domain] = Surrogate(units, single, interaction)
        return self._surrogates[domain]

    def _find_baselines(
        self, size: int, surrogate: Surrogate, every: Sequence[Subset] | None
    ) -> dict[str, tuple[Subset, ...]]:
        """Return the baselines of a size.

        Args:
            every: all subsets of the size, where all are measured.
        """
        if self._influence is None:
            self._influence = measure_influence(self._ledger.wave, self._ledger.batches("calibration"), self.units)
        # Stable, so that of equal costs the earlier unit goes, on every machine.
        order = np.argsort(surrogate.single, kind="stable")[:size]
        baselines: dict[str, tuple[Subset, ...]] = {BLOCK_INFLUENCE: (self._influence.least(size),)}
        if all(unit.part == "block" for unit in self.units):
            window = self._influence.window(size)
            # A window may hold blocks that have to stay, since others take their keys and values.
            if window <= set(self.units):
                baselines[ANGULAR] = (window,)
        baselines[ONE_SHOT] = (frozenset(self.units[place] for place in order),)
        last: Subset = frozenset(self.units[-size:])
        # A stream of random numbers for each size, so that asking for other sizes changes none of them.
        rng = np.random.default_rng([self._seed, size])
        samples = (rng.choice(len(self.units), size, replace=False) for _ in range(self._random))
        at_random = tuple(frozenset(self.units[place] for place in sample) for sample in samples)
        favoured = surrogate.cheapest(size, self._measured)
        # In one tree, whose common beginnings run once: what greedy dropping chooses from, and what is looked at later.
        near = [*chain.from_iterable(baselines.values()), last, *at_random, *favoured, *self._further(size)]
        measured = list(dict.fromkeys(near if every is None else every))
        self.costs(measured, f"measuring {len(measured)} subsets")
        baselines[GREEDY] = (self.greedy(size),)
        baselines[SURROGATE] = (favoured[0],)
        baselines[LAST] = (last,)
        baselines[RANDOM] = at_random
        return baselines

    def _list_subsets(self, size: int) -> list[Subset] | None:
        """Return all subsets of a size, where measuring them fits the budget."""
        if math.comb(len(self.units), size) > min(self._budget, _MOST_SUBSETS):
            return None  # the end of each history is a call of its own
        every: list[Subset] = [frozenset(units) for units in combinations(self.units, size)]
        # the subsets of greedy dropping are measured in any case
        in_any_case = set(self._further(size))
        return every if self._fits([subset for subset in every if subset not in in_any_case]) else None

    def _search_near(self, size: int, baselines: Sequence[Subset], domain: int | None = None) -> list[Subset]:
        """Return what the surrogate favours, the baselines, and exchanges in the cheapest of them."""
        surrogate = self._surrogate_of(domain)
        pool = list(dict.fromkeys([*surrogate.cheapest(size, self._measured), *baselines]))
        for _ in range(_ROUNDS):
            costs = self.costs(pool, f"measuring {len(pool)} subsets", domain)
            best = pool[place_of_cheapest(costs)]
            # The surrogate orders the exchanges, since measuring all of them would take too many calls.
            near = sorted(exchanges(best, self.units), key=surrogate.cost)
            new = [subset for subset in near if subset not in pool][: self._measured]
            if not new:
                break
            cost_of_new = self.costs(new, f"measuring {len(new)} exchanges", domain)
            gained = np.nanmin(cost_of_new, initial=np.inf) < np.nanmin(costs)
            pool += new
            if not gained:
                break
        return pool

    def _fits(self, subsets: Sequence[Subset]) -> bool:
        return self._ledger.planned("calibration", self._histories(subsets)) <= self._budget

    def _histories(self, subsets: Sequence[Subset]) -> list[History]:
        return [without(self._ledger.model.n_blocks, subset) for subset in subsets]

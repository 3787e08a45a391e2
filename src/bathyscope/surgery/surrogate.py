"""Costs of large subsets foretold from those of single units and pairs, and the subsets that it says cost least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bathyscope.arrays import FloatArray
from bathyscope.wavefront.histories import Unit

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

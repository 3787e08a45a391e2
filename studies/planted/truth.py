"""What is known about a planted model's use of depth, because it was built that way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

Pairs = frozenset[tuple[int, int]]
"""(s, l): an earlier block and a later one."""


@dataclass(frozen=True)
class Truth:
    """The planted facts, in blocks 0 … L−1 and boundaries 0 … L.

    Args:
        n_blocks: L.
        depth: the number of blocks after which the answer has been worked out.
        needed: blocks without which the prediction is another one.
        uses: (s, l) where block l, itself of use to the prediction, works on what came from block s, directly or
            through blocks between.
        direct_uses: those of them where l reads what s itself wrote.
        uses_across: those of them that reach a later token than the one at which s worked.
        ordered: l where running l+1 before l would change the prediction.
        last_gathering: the last block that fetches something of use from an earlier token; it reads that token's
            stream at the boundary of the same number.
        settling: (blocks, share of the tokens), in order: after how many blocks which share of the tokens has its
            answer, where they differ; empty where all tokens have theirs after ``depth``.
    """

    n_blocks: int
    depth: int
    needed: frozenset[int]
    uses: Pairs
    direct_uses: Pairs
    uses_across: Pairs
    ordered: frozenset[int]
    last_gathering: int
    settling: tuple[tuple[int, float], ...] = ()

    @property
    def settled(self) -> tuple[tuple[int, float], ...]:
        """``settling``, written out where all tokens have one depth."""
        return self.settling or ((self.depth, 1.0),)

    @property
    def mean_depth(self) -> float:
        """The mean over tokens, which may be a depth that no token has."""
        return sum(depth * share for depth, share in self.settled)

    def depth_of(self, share: float) -> float:
        """Blocks until a share of the tokens has its answer, on straight lines between boundaries.

        Where all tokens have theirs after 5 blocks, half of them do after 4.5.

        Args:
            share: above 0, at most 1.
        """
        before = 0.0
        for depth, part in self.settled:
            if before + part >= share:
                return max(depth - (before + part - share) / part, 0.0)
            before += part
        return float(self.settled[-1][0])


def chain_truth(n_blocks: int, steps: Sequence[int]) -> Truth:
    """The truth of a chain whose steps are these blocks, in order, where all other blocks do nothing of use."""
    every_pair = frozenset(combinations(steps, 2))
    return Truth(
        n_blocks=n_blocks,
        depth=steps[-1] + 1,
        needed=frozenset(steps),
        uses=every_pair,
        direct_uses=frozenset(pairwise(steps)),
        uses_across=every_pair,
        ordered=frozenset(a for a, b in pairwise(steps) if b == a + 1),
        last_gathering=steps[-1],
    )

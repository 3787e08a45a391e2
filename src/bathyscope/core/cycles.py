"""Where the steps of a looped model stand: in which loop, and which block of the loop they run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

LOOPS = "loops"
"""The attribute of a result of a looped model that holds the block of every step."""
OUTSIDE = -1
"""The loop of a block that runs once, in front of the loops or behind them."""


@dataclass(frozen=True)
class Cycle:
    """The order in which a model runs its blocks, some of them several times.

    Args:
        blocks: by step the number of the block that it runs, as the model lists its blocks.
    """

    blocks: tuple[int, ...]

    @cached_property
    def _looped(self) -> range:
        """The steps from the first run of a block that runs several times to the last such run."""
        repeated = [step for step, block in enumerate(self.blocks) if self.blocks.count(block) > 1]
        return range(repeated[0], repeated[-1] + 1) if repeated else range(0)

    @cached_property
    def period(self) -> int | None:
        """How many steps a loop has; None where the order of blocks does not repeat."""
        inside = self.blocks[self._looped.start : self._looped.stop]
        for period in range(1, len(inside) // 2 + 1):
            if len(inside) % period == 0 and inside[period:] == inside[:-period]:
                return period
        return None

    @property
    def first(self) -> int:
        """The first step that belongs to a loop; 0 where no block repeats."""
        return self._looped.start

    @property
    def loops(self) -> int:
        """How many loops there are; 1 where the order of blocks does not repeat."""
        return 1 if self.period is None else len(self._looped) // self.period

    @property
    def loop(self) -> tuple[int, ...]:
        """By step the number of its loop, or how often its block ran before where no period is; −1 outside of loops."""
        if self.period is None:
            return tuple(
                self.blocks[:step].count(block) if self.blocks.count(block) > 1 else OUTSIDE
                for step, block in enumerate(self.blocks)
            )
        inside, period = self._looped, self.period
        return tuple((step - inside.start) // period if step in inside else OUTSIDE for step in range(len(self.blocks)))

    @property
    def block_in_loop(self) -> tuple[int, ...]:
        """By step its place in the loop; the number of its block outside of loops, and where no period is."""
        if self.period is None:
            return self.blocks
        inside, period = self._looped, self.period
        return tuple(
            (step - inside.start) % period if step in inside else block for step, block in enumerate(self.blocks)
        )

    def name(self, step: int) -> str:
        """Return the address of a step, such as ``loop 1, block 0``; ``block 0`` outside of loops."""
        loop, block = self.loop[step], self.block_in_loop[step]
        return f"block {block}" if loop == OUTSIDE else f"loop {loop}, block {block}"

    def runs_of(self, block_in_loop: int) -> tuple[int, ...]:
        """Return the steps that run one block of the loop, in every loop."""
        places = zip(self.loop, self.block_in_loop)
        return tuple(step for step, place in enumerate(places) if place[0] != OUTSIDE and place[1] == block_in_loop)

    @property
    def runs(self) -> tuple[tuple[int, ...], ...]:
        """For each block of the loop its runs; empty where the order of blocks does not repeat."""
        return tuple(self.runs_of(block) for block in range(self.period or 0))

    def loops_done(self, blocks_done: float) -> float:
        """Return how many loops are done after some steps, which need be no whole number.

        Raises:
            ValueError: the order of blocks does not repeat.
        """
        if self.period is None:
            raise ValueError("the order of these blocks does not repeat")
        inside = min(max(blocks_done - self._looped.start, 0.0), float(len(self._looped)))
        return inside / self.period

    def in_loops(self, blocks_done: float) -> str:
        """Return a depth as ``2.6 of 4 loops``; empty where the order of blocks does not repeat."""
        if self.period is None or math.isnan(blocks_done):
            return ""
        return f"{self.loops_done(blocks_done):.1f} of {self.loops} loops"


def with_address(cycle: Cycle | None, step: int, text: str = "") -> str:
    """Return ``3 (loop 1, block 1)`` for a step of a looped model, and ``3`` for others; ``text`` may stand for 3."""
    named = text or str(step)
    return named if cycle is None else f"{named} ({cycle.name(step)})"


def joined_blocks(cycle: Cycle) -> str:
    """Return the block of every step as a text that attributes of results can hold, such as ``0,1,0,1``."""
    return ",".join(map(str, cycle.blocks))


def cycle_in(attrs: Mapping[str, Any]) -> Cycle | None:
    """Return the cycle that the attributes of a result name; None where they name none."""
    text = str(attrs.get(LOOPS, ""))
    return cycle_of(tuple(map(int, text.split(",")))) if text else None


def cycle_of(blocks: tuple[int, ...] | None) -> Cycle | None:
    """Return the cycle of an order of blocks; None where every block runs once, or nothing is known."""
    if blocks is None or len(set(blocks)) == len(blocks):
        return None
    return Cycle(blocks)

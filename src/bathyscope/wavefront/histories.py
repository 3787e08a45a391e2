"""Histories in which blocks, or parts of blocks, are left out or run again, as a tree: what begins alike is run once.

The tree is known before anything runs, and with it the exact number of calls: a block for each distinct beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bathyscope.schedule import Schedule


class Unit(NamedTuple):
    """What may be left out: a block, or its ``attention`` or ``mlp``."""

    block: int
    part: str = "block"

    def __str__(self) -> str:
        return f"{'drop' if self.part == 'block' else self.part}:{self.block}"


class Step(NamedTuple):
    """A block that runs, and the parts of it that add nothing."""

    block: int
    silent: tuple[str, ...] = ()


History = tuple[Step, ...]


def without(n_blocks: int, units: Collection[Unit]) -> History:
    """Every block once, in order, but for the units."""
    parts = {block: tuple(sorted(u.part for u in units if u.block == block)) for block in {u.block for u in units}}
    return tuple(Step(block, parts.get(block, ())) for block in range(n_blocks) if "block" not in parts.get(block, ()))


def following(schedule: Schedule) -> History:
    """The blocks in the order of a schedule."""
    return tuple(Step(block) for block in schedule)


def twice(n_blocks: int, first: int, last: int) -> Schedule:
    """The window of blocks ``first`` … ``last`` run twice in a row: … first … last, first … last, …"""
    return Schedule((*range(last + 1), *range(first, n_blocks)), n_blocks)


@dataclass(eq=False)
class Node:
    """A beginning of some histories: the steps that follow it, and the histories that end with it."""

    next: dict[Step, Node] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    leads: bool = False
    """It is a beginning of the first history."""


class Tree:
    """Histories by their beginnings.

    Args:
        histories: the first of them is run ahead of all others, so that they may be compared with it as they end.
    """

    def __init__(self, histories: Sequence[History]) -> None:
        self.histories = tuple(histories)
        self.root = Node(leads=True)
        self.calls = 0
        """Calls of a block that the histories take, for each batch of prompts."""
        for number, history in enumerate(self.histories):
            node = self.root
            for step in history:
                if step not in node.next:
                    node.next[step] = Node(leads=number == 0)
                    self.calls += 1
                node = node.next[step]
            node.ends.append(number)

    @classmethod
    def leaving_out(cls, n_blocks: int, subsets: Iterable[Collection[Unit]]) -> Tree:
        """The full history, then one without each subset."""
        return cls([without(n_blocks, units) for units in ((), *subsets)])

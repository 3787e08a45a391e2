"""Histories in which blocks, or parts of blocks, are left out or run again, as a tree: what begins alike is run once.

The tree is known before anything runs, and with it the exact number of calls: a block for each distinct beginning.
Calls are of a good size, and memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import torch
from torch import Tensor

from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.replay import State
from bathyscope.model.anatomy.sites import silenced
from bathyscope.model.memory import free_bytes
from bathyscope.model.streaming.lending import lender_of, lent
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import while_memory_lasts
from bathyscope.wavefront.engine import Wavefront

Land = Callable[[Sequence[int], Tensor], None]
_ROOM: Final = 8
"""Beyond so many calls' histories that wait, those that are nearest to their end go first."""


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
    """Return the schedule in which the window of blocks ``first`` … ``last`` runs twice in a row."""
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


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A beginning with the state before its last step."""

    node: Node
    resid_BTD: Tensor
    passed: State


_Key = tuple[Step, frozenset[object]]


class TreeRun:
    """Histories of one batch of prompts.

    Those that wait for the same block share a call. While few wait, the earliest block runs first, which fills calls;
    when many do, the latest, which ends histories and frees what they hold: at most some calls' states, and those of
    the first history. Below float32 the product of a row depends on the shape of its call, so that every history has
    calls of its own there, all of one shape.
    """

    def __init__(self, wave: Wavefront, batch: Batch) -> None:
        self._wave = wave
        self._replay = wave.anatomy.replay(batch.ids_BT)
        self._prompts_B = torch.arange(batch.size, device=batch.ids_BT.device)
        rows = max(1, wave.policy.tokens // (batch.size * batch.tokens))
        self._together = 1 if wave.policy.control_in_every_call else rows
        self._many = self._kept_waiting(batch.ids_BT.device)
        self._waiting: dict[_Key, list[_Waiting]] = {}
        self.calls = 0
        """Calls of a block that have been made, one for each history in them."""

    def _kept_waiting(self, device: torch.device) -> int:
        """Histories that may wait before those nearest to their end go first.

        With calls of their own they gain nothing by waiting for each other, but where blocks are read from disk: then
        as many wait as a quarter of the free memory holds, so that a block is read once for all of them.
        """
        if self._together > 1:
            return _ROOM * self._together
        if lender_of(self._wave.anatomy.blocks[0]) is None:
            return 0
        return (free_bytes(device) or 0) // 4 // self._replay.recording.resid0_BTD.nbytes

    @torch.no_grad()
    def run(self, tree: Tree, land: Land, step: Callable[[int], None] | None = None) -> None:
        """All histories, the first ahead of the others.

        Args:
            land: given the numbers of histories and their final state [batch, tokens, width], which is not kept.
            step: told the calls made so far.
        """
        with evaluating(self._wave.anatomy.model):
            self._begin(tree.root, self._replay.recording.resid0_BTD, {}, land)
            while self._waiting:
                key = self._chosen()
                stack = self._waiting[key]
                taken = stack[-min(self._together, len(stack)) :][::-1]
                found = None
                with while_memory_lasts():
                    found = self._called(key[0], taken)
                if found is None:
                    rows = len(taken)
                    self._wave.policy.shrink(rows, self._replay.batch * self._replay.tokens, taken[0].resid_BTD.device)
                    self._together = rows // 2
                    self._many = min(self._many, _ROOM * self._together if self._together > 1 else 0)
                    continue
                del stack[-len(taken) :]
                if not stack:
                    del self._waiting[key]
                for one, (resid_BTD, passed) in zip(taken, found):
                    self._begin(one.node, resid_BTD, passed, land)
                if step is not None:
                    step(self.calls)

    def _begin(self, node: Node, resid_BTD: Tensor, passed: State, land: Land) -> None:
        """A beginning has been run: histories end with it, and others go on."""
        if node.ends:
            land(node.ends, resid_BTD)
        for step, following in node.next.items():
            self._waiting.setdefault((step, frozenset(passed)), []).append(_Waiting(following, resid_BTD, passed))

    def _chosen(self) -> _Key:
        leading = next((key for key, stack in self._waiting.items() if any(one.node.leads for one in stack)), None)
        if leading is not None:
            # the first history goes alone: it is the last that began to wait
            return leading
        later = sum(map(len, self._waiting.values())) > self._many
        return (max if later else min)(self._waiting, key=lambda key: key[0])

    def _called(self, step: Step, taken: Sequence[_Waiting]) -> list[tuple[Tensor, State]]:
        given = torch.cat([one.resid_BTD for one in taken])
        passed = {key: _joined([one.passed[key] for one in taken]) for key in taken[0].passed}
        with lent(self._wave.anatomy.blocks[step.block]) as block:
            silent = {part: torch.ones(given.shape[:2], dtype=torch.bool, device=given.device) for part in step.silent}
            with silenced(block, self._wave.anatomy.sites, silent):
                out = self._replay.run(block, step.block, given, self._prompts_B.repeat(len(taken)), state=passed)
        self.calls += len(taken)
        if len(taken) == 1:
            return [(out, passed)]
        size = self._replay.batch
        # copies, so that what ends early frees its memory
        return [
            (
                out[i * size : (i + 1) * size].clone(),
                {key: tuple(t[i * size : (i + 1) * size].clone() for t in ts) for key, ts in passed.items()},
            )
            for i in range(len(taken))
        ]


def _joined(several: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.cat(tensors) for tensors in zip(*several, strict=True))

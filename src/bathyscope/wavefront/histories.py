"""Histories in which blocks, or parts of blocks, are left out or run again, as a tree: common beginnings run once.

The tree is planned before anything runs, and with it the exact number of calls: one for each distinct beginning. Calls
are of a good size, and memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import torch
from torch import Tensor

from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.parallel import merge_contributions
from bathyscope.model.anatomy.replay import State
from bathyscope.model.anatomy.sites import silenced
from bathyscope.model.memory import free_bytes
from bathyscope.model.streaming.lending import lender_of, lent
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import while_memory_lasts
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.variants import SlotVariant, VariantReplay, evaluating_variants

Land = Callable[[Sequence[int], Tensor], None]
_ROOM: Final = 8
"""When the histories of more calls than this wait, those nearest to their end go first."""


class Unit(NamedTuple):
    """A block that may be left out, or its ``attention`` or ``mlp``."""

    block: int
    part: str = "block"

    def __str__(self) -> str:
        return f"{'drop' if self.part == 'block' else self.part}:{self.block}"


class Step(NamedTuple):
    """A block that runs, the parts of it that add nothing, and the variant that holds its slot ("" = its own).

    ``parallel`` are further blocks that read the same stream, as they are; what each contributes is added.
    """

    block: int
    silent: tuple[str, ...] = ()
    variant: str = ""
    parallel: tuple[int, ...] = ()

    @property
    def calls(self) -> int:
        """Calls of a block that it takes."""
        return 1 + len(self.parallel)


History = tuple[Step, ...]


def without(n_blocks: int, units: Collection[Unit]) -> History:
    """Return the history of every block once, in order, without the units."""
    parts = {block: tuple(sorted(u.part for u in units if u.block == block)) for block in {u.block for u in units}}
    return tuple(Step(block, parts.get(block, ())) for block in range(n_blocks) if "block" not in parts.get(block, ()))


def grafted(n_blocks: int, blocks: Collection[int], variant: str) -> History:
    """Return the history of every block once, in order, where a variant holds the slots of some blocks."""
    return tuple(Step(block, variant=variant if block in blocks else "") for block in range(n_blocks))


def following(schedule: Schedule) -> History:
    """Return the history of the blocks in the order of a schedule."""
    return tuple(Step(first, parallel=tuple(others)) for first, *others in schedule.stages)


def twice(n_blocks: int, first: int, last: int) -> Schedule:
    """Return the schedule in which the window of blocks ``first`` … ``last`` runs twice in a row."""
    return Schedule((*range(last + 1), *range(first, n_blocks)), n_blocks)


@dataclass(eq=False)
class Node:
    """A beginning of some histories: the steps that follow it, and the histories that end with it."""

    next: dict[Step, Node] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    leads: bool = False
    """Whether it is a beginning of the first history."""


class Tree:
    """Histories by their beginnings.

    Args:
        histories: the first of them runs ahead of all others, so that they can be compared with it as they end.
    """

    def __init__(self, histories: Sequence[History]) -> None:
        self.histories = tuple(histories)
        self.root = Node(leads=True)
        self.calls = 0
        """Calls of a block that the histories take for each batch of prompts."""
        for number, history in enumerate(self.histories):
            node = self.root
            for step in history:
                if step not in node.next:
                    node.next[step] = Node(leads=number == 0)
                    self.calls += step.calls
                node = node.next[step]
            node.ends.append(number)

    @classmethod
    def leaving_out(cls, n_blocks: int, subsets: Iterable[Collection[Unit]]) -> Tree:
        """Return the tree of the full history, and of one history without each subset."""
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

    Histories that wait for the same block share a call. While few wait, the earliest block runs first, which fills
    calls. When many wait, the latest runs first, which ends histories and frees their states. Below float32 the product
    of a row depends on the shape of its call, so every history has its own calls there, all of one shape.
    """

    def __init__(self, wave: Wavefront, batch: Batch, variants: Mapping[str, SlotVariant] | None = None) -> None:
        self._wave = wave
        self._replay = wave.anatomy.replay(batch.ids_BT)
        self._variants = variants or {}
        self._variant_replays = {
            name: VariantReplay(variant, self._replay, wave.anatomy.sites, batch)
            for name, variant in self._variants.items()
        }
        self._prompts_B = torch.arange(batch.size, device=batch.ids_BT.device)
        rows = max(1, wave.policy.in_call // (batch.size * batch.tokens))
        self._together = 1 if wave.policy.control_in_every_call else rows
        self._many = self._most_waiting(batch.ids_BT.device)
        self._waiting: dict[_Key, list[_Waiting]] = {}
        self.calls = 0
        """Calls of a block that have been made, one for each history in them."""

    def _most_waiting(self, device: torch.device) -> int:
        """Return how many histories may wait before those nearest to their end go first.

        Histories with their own calls gain nothing by waiting for each other, unless blocks are read from a disk: then
        as many wait as a quarter of the free memory holds, so that a block is read once for all of them.
        """
        if self._together > 1:
            return _ROOM * self._together
        if lender_of(self._wave.anatomy.blocks[0]) is None:
            return 0
        return (free_bytes(device) or 0) // 4 // self._replay.recording.resid0_BTD.nbytes

    @torch.no_grad()
    def run(self, tree: Tree, land: Land, step: Callable[[int], None] | None = None) -> None:
        """Run all histories, the first ahead of the others.

        Args:
            land: takes the numbers of histories and their final state [batch, tokens, width], which is then released.
            step: takes the number of calls so far.
        """
        with evaluating(self._wave.anatomy.model), evaluating_variants(self._variants):
            self._begin(tree.root, self._replay.recording.resid0_BTD, {}, land)
            while self._waiting:
                key = self._choose()
                stack = self._waiting[key]
                taken = stack[-min(self._together, len(stack)) :][::-1]
                outputs = None
                with while_memory_lasts():
                    outputs = self._call(key[0], taken)
                if outputs is None:
                    rows = len(taken)
                    # Nothing has left the queue yet: the same histories wait again, and fewer of them share a call.
                    self._wave.policy.shrink(rows, self._replay.batch * self._replay.tokens, taken[0].resid_BTD.device)
                    self._together = rows // 2
                    self._many = min(self._many, _ROOM * self._together if self._together > 1 else 0)
                    continue
                del stack[-len(taken) :]
                if not stack:
                    del self._waiting[key]
                for waiting, (resid_BTD, passed) in zip(taken, outputs):
                    self._begin(waiting.node, resid_BTD, passed, land)
                if step is not None:
                    step(self.calls)

    def _begin(self, node: Node, resid_BTD: Tensor, passed: State, land: Land) -> None:
        """Land the histories that end with a beginning that has run, and queue those that go on."""
        if node.ends:
            land(node.ends, resid_BTD)
        for step, following in node.next.items():
            self._waiting.setdefault((step, frozenset(passed)), []).append(_Waiting(following, resid_BTD, passed))

    def _choose(self) -> _Key:
        """Return the block whose waiting histories run next."""
        leading = next(
            (key for key, stack in self._waiting.items() if any(waiting.node.leads for waiting in stack)), None
        )
        if leading is not None:
            # The first history goes alone: it is the last one that began to wait.
            return leading
        many_wait = sum(map(len, self._waiting.values())) > self._many
        return (max if many_wait else min)(self._waiting, key=lambda key: key[0])

    def _call(self, step: Step, taken: Sequence[_Waiting]) -> list[tuple[Tensor, State]]:
        """Run one block on some waiting histories; return the stream of each, and what blocks passed on in it."""
        resid = torch.cat([waiting.resid_BTD for waiting in taken])
        passed = {key: _concatenate([waiting.passed[key] for waiting in taken]) for key in taken[0].passed}
        prompts_N = self._prompts_B.repeat(len(taken))
        silent = {part: torch.ones(resid.shape[:2], dtype=torch.bool, device=resid.device) for part in step.silent}
        variant = self._variant_replays[step.variant] if step.variant else None
        own_block = self._wave.anatomy.blocks[step.block]
        sites = self._wave.anatomy.sites if variant is None else variant.sites
        with (
            lent(own_block if variant is None else variant.module(step.block)) as block,
            silenced(block, sites, silent),
        ):
            if variant is None:
                out = self._replay.run(block, step.block, resid, prompts_N, state=passed)
            else:
                out = variant.run(block, step.block, resid, prompts_N, passed)
        outputs = [out]
        for number in step.parallel:
            with lent(self._wave.anatomy.blocks[number]) as block:
                outputs.append(self._replay.run(block, number, resid, prompts_N, state=passed))
        out = merge_contributions(resid, outputs)
        self.calls += len(taken) * step.calls
        if len(taken) == 1:
            return [(out, passed)]
        size = self._replay.batch
        # Copies, because views would hold the memory of all histories of the call until the last of them ends.
        return [
            (
                out[i * size : (i + 1) * size].clone(),
                {key: tuple(t[i * size : (i + 1) * size].clone() for t in ts) for key, ts in passed.items()},
            )
            for i in range(len(taken))
        ]


def _concatenate(histories: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Join what several histories passed on, tensor by tensor."""
    return tuple(torch.cat(tensors) for tensors in zip(*histories, strict=True))

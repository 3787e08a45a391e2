"""One block on many rows: split into calls of a good size, each accompanied by a control row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from bathyscope.anatomy.cache import CaptureCache
from bathyscope.anatomy.family import Site
from bathyscope.anatomy.replay import Replay, State
from bathyscope.anatomy.sites import tapped

Carry = dict[object, tuple[Tensor, ...]]


@dataclass(frozen=True)
class CallPolicy:
    """How rows are split into calls.

    Args:
        tokens: tokens per call; on a CPU time per token is flat from about 400 and with two threads falls
            a little further up to some thousands, on an accelerator larger calls are better.
        control_in_every_call: in low precision a matrix product depends on the batch it is in, so that each
            call carries its own control row. In float32 rows do not depend on each other's number, and one
            control for all calls of a block is exact to rounding.
    """

    tokens: int
    control_in_every_call: bool

    @classmethod
    def for_model(cls, dtype: torch.dtype, device: torch.device, tokens: int | None = None) -> CallPolicy:
        """The policy for a dtype and device."""
        default = 4800 if device.type == "cpu" else 32768
        return cls(tokens or default, dtype not in (torch.float32, torch.float64))


@dataclass(frozen=True)
class CallResult:
    """What one call did: rows ``first … first+len(after)−1`` of the asked ones, and the control beside them.

    ``parts`` are the rows' contributions, and ``control_parts`` the control's where it was in this call; both are
    empty unless sites were tapped.
    """

    first: int
    before: Tensor
    after: Tensor
    control_before: Tensor
    control_after: Tensor
    captured: CaptureCache
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    control_parts: Mapping[str, Tensor] = field(default_factory=dict)


def even_pieces(rows: int, most: int) -> Iterator[tuple[int, int]]:
    """``rows`` split into as few ranges of at most ``most`` as possible, of nearly equal size."""
    pieces = -(-rows // max(1, most))
    edges = [rows * i // pieces for i in range(pieces + 1)]
    yield from pairwise(edges)


@dataclass
class RowCaller:
    """Calls blocks on rows [rows, batch, tokens, width] whose row 0 is the control.

    Args:
        replay: recorded arguments of the batch.
        policy: size of calls and control.
        prompts_B: which recorded sequences the second axis stands for, [batch].
    """

    replay: Replay
    policy: CallPolicy
    prompts_B: Tensor

    def calls(
        self,
        block: nn.Module,
        index: int,
        rows: Tensor,
        carry: Carry | None,
        caches: CacheMaker | None = None,
        start: int = 0,
        attends: bool = True,
        has_control: bool = True,
        edits: Edits | None = None,
        taps: Mapping[str, Site] | None = None,
    ) -> Iterator[CallResult]:
        """Runs the block on all rows, a call at a time; ``carry`` (per row) is read and updated in place.

        Args:
            taps: sites whose contributions are read.
        """
        per_call = max(1, self.policy.tokens // (rows.shape[1] * rows.shape[2]))
        control_before = rows[0].clone()  # the caller writes results back while later calls run
        control_after: Tensor | None = None
        for first, last in even_pieces(rows.shape[0], per_call):
            extra = has_control and first > 0 and self.policy.control_in_every_call
            before = rows[first:last]
            given = torch.cat([control_before[None], before]) if extra else before
            picked = [0, *range(first, last)] if extra else slice(first, last)
            state = _slice_carry(carry, picked)
            cache = caches.make(picked) if caches is not None else CaptureCache()
            with nullcontext() if edits is None else edits.during(block, picked), tapped(block, taps or {}) as taken:
                out = self.replay.run(
                    block,
                    index,
                    given.flatten(0, 1),
                    self.prompts_B.repeat(given.shape[0]) if self.replay.batch > 1 else None,
                    cache=cache if caches is not None else None,
                    start=start,
                    attends=attends,
                    state=state,
                ).view(given.shape)
            _store_carry(carry, state, rows.shape[:2], first, last, extra)
            parts = {part: value.view(given.shape) for part, value in taken.items()}
            own = slice(1, None) if extra else slice(None)
            if extra or first == 0:
                control_after = out[0]
            assert control_after is not None
            with_control = has_control and (extra or first == 0)
            yield CallResult(
                first,
                before,
                out[own],
                control_before,
                control_after,
                cache,
                {part: value[own] for part, value in parts.items()},
                {part: value[0] for part, value in parts.items()} if with_control else {},
            )


class Edits(Protocol):
    """Changes to a block while it runs on some rows."""

    def during(self, block: nn.Module, picked: list[int] | slice) -> AbstractContextManager[None]:
        """The changes that concern the picked rows, in force inside the context."""
        ...


class CacheMaker:
    """Makes the cache object for each call; the base class captures keys and values."""

    def make(self, picked: list[int] | slice) -> CaptureCache:
        """A cache for the given rows."""
        return CaptureCache()


def _slice_carry(carry: Carry | None, picked: list[int] | slice) -> State | None:
    if carry is None:
        return None
    return {key: tuple(t[picked].flatten(0, 1) for t in tensors) for key, tensors in carry.items()}


def _store_carry(
    carry: Carry | None, state: State | None, shape: torch.Size, first: int, last: int, extra: bool
) -> None:
    """Writes what blocks passed on back into the per-row buffers [rows, batch, …]."""
    if carry is None or state is None:
        return
    for key, tensors in state.items():
        split = [t.unflatten(0, (-1, shape[1])) for t in tensors]
        kept = [t[1:] if extra else t for t in split]
        if key not in carry:
            carry[key] = tuple(t.new_zeros(shape[0], *t.shape[1:]) for t in kept)
        for buffer, value in zip(carry[key], kept):
            buffer[first:last] = value

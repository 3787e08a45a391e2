"""Tail rows: histories of one prompt that own only the tokens from ``start`` on.

Tokens before ``start`` equal those of a donor row at every block, so the donor's keys and values are lent.
All tails of one prompt and start have the same shape and run together, with a control tail among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from bathyscope.anatomy.cache import CaptureCache, TailCache
from bathyscope.anatomy.replay import Replay
from bathyscope.wavefront.calls import CacheMaker, CallPolicy, CallResult, Carry, RowCaller
from bathyscope.wavefront.full import FullRows
from bathyscope.wavefront.plan import Late
from bathyscope.wavefront.rows import Request, SkipBefore

Show = Callable[[int, Sequence[Sequence[Request]], CallResult, int, int], None]


class Lender(CacheMaker):
    """Makes tail caches from keys and values [rows, heads, start, head width]."""

    def __init__(self, lent: tuple[Tensor, Tensor] | None, start: int) -> None:
        self._lent = lent
        self._start = start

    def make(self, picked: list[int] | slice) -> CaptureCache:
        if self._lent is None:
            return TailCache(None, None, self._start)
        return TailCache(self._lent[0][picked], self._lent[1][picked], self._start)


class TailRows:
    """The tails of one prompt and start, in slots; slot 0 is the control tail.

    Args:
        requests: tails to compute, sorted by block; block L−1 is left out by the caller, since skipping the
            last block earlier changes nothing at later tokens.
        length: tokens of the prompt.
    """

    def __init__(
        self, requests: Sequence[SkipBefore], replay: Replay, length: int, policy: CallPolicy, show: Show
    ) -> None:
        self._requests = list(requests)
        self._show = show
        self.prompt, self.start, self._length = requests[0].prompt, requests[0].start, length
        resid0_BTD = replay.recording.resid0_BTD
        # rows are cut to the prompt's own length, the recorded arguments to the batch's: a tail of a padded
        # batch keeps the pads, which nothing looks at
        self._tokens = replay.tokens - self.start
        device = resid0_BTD.device
        self._caller = RowCaller(replay, policy, torch.tensor([self.prompt], device=device))
        self._state = resid0_BTD.new_empty(len(requests) + 1, 1, self._tokens, resid0_BTD.shape[-1])
        self._born = 0
        shares_state = any(a.state is not None for a in replay.recording.blocks)
        self._carry: Carry | None = {} if shares_state else None

    @property
    def first_boundary(self) -> int:
        """Where the first tail begins."""
        return self._requests[0].block + 1

    def begin(self, full: FullRows) -> None:
        """The control tail begins with the control row's own tokens."""
        self._state[0] = full.control[self.prompt : self.prompt + 1, self.start :]
        if self._carry is not None:
            rows = len(self._state)
            for key, tensors in full.control_carry.items():
                own = [t[self.prompt : self.prompt + 1] for t in tensors]
                self._carry[key] = tuple(t[None].repeat(rows, *[1] * t.ndim) for t in own)

    def advance(self, block: nn.Module, index: int, full: FullRows) -> None:
        """Moves the control tail and all born tails over one block, on the keys and values of their donors."""
        self._spawn(index)
        active = self._born + 1
        slots = [0, *(full.slot(r.donor) for r in self._requests[: self._born])]
        lender = Lender(full.lent(slots, self.prompt, self.start), self.start)
        carry = None if self._carry is None else {k: tuple(t[:active] for t in v) for k, v in self._carry.items()}
        for result in self._caller.calls(
            block, index, self._state[:active], carry, lender, self.start, attends=full.attends
        ):
            last = result.first + len(result.after)
            served: list[Sequence[Request]] = [
                (self._requests[slot - 1],) if slot else () for slot in range(result.first, last)
            ]
            self._show(index, served, result, self.prompt, self.start)
            self._state[result.first : last] = result.after
        self._keep_carry(carry, active)

    def final(self, n_blocks: int) -> tuple[Tensor, dict[Request, Tensor]]:
        """Final states: the control's [own tokens, width], and the tails' by request."""
        self._spawn(n_blocks)
        own = self._length - self.start
        rows: dict[Request, Tensor] = {r: self._state[i + 1, 0, :own] for i, r in enumerate(self._requests)}
        return self._state[0, 0, :own], rows

    def _spawn(self, boundary: int) -> None:
        while self._born < len(self._requests) and self._requests[self._born].block + 1 <= boundary:
            self._born += 1
            self._state[self._born] = self._state[0]
            for tensors in (self._carry or {}).values():
                for buffer in tensors:
                    buffer[self._born] = buffer[0]

    def _keep_carry(self, carry: Carry | None, active: int) -> None:
        for key, tensors in (carry or {}).items():
            assert self._carry is not None
            if key not in self._carry:
                self._carry[key] = tuple(t.new_zeros(len(self._state), *t.shape[1:]) for t in tensors)
            for buffer, value in zip(self._carry[key], tensors):
                buffer[:active] = value


LateT = TypeVar("LateT", bound=Late)


def group_tails(requests: Sequence[LateT]) -> list[list[LateT]]:
    """Requests by prompt and start, each group sorted by block."""
    groups: dict[tuple[int, int], list[LateT]] = {}
    for request in requests:
        groups.setdefault((request.prompt, request.start), []).append(request)
    return [sorted(group, key=lambda r: r.block) for _, group in sorted(groups.items())]

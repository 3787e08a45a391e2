"""Direct rows: what each later block alone makes of its input without an earlier block's contribution.

Block l sees h_l − c_s where block s is left out, and nothing is carried on to block l+1. All rows of a block are
therefore made afresh from the plain residual stream and the kept contributions, and one visit of the block
serves every s and, through lent keys and values, every starting token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.anatomy.replay import Replay, State
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CacheMaker, CallPolicy, CallResult, Carry, RowCaller
from bathyscope.wavefront.rows import DirectBefore, DirectRow, Request
from bathyscope.wavefront.tail import Lender

ShowFull = Callable[[int, Sequence[Sequence[Request]], CallResult], None]
ShowTail = Callable[[int, Sequence[Sequence[Request]], CallResult, int, int], None]


@dataclass(frozen=True)
class _Row:
    """One full row: block ``block`` left out at tokens ``protect … before−1`` of each prompt."""

    block: int
    protect: int
    before: tuple[int, ...]
    served: tuple[Request, ...]


class DirectRows:
    """All direct rows of one batch.

    Args:
        requests: what to show.
        tails: whether tails may take lent keys and values; otherwise full rows are computed in their place.
        show_full, show_tail: called for every call of a block.
    """

    def __init__(
        self,
        requests: Sequence[DirectRow | DirectBefore],
        replay: Replay,
        batch: Batch,
        policy: CallPolicy,
        tails: bool,
        show_full: ShowFull,
        show_tail: ShowTail,
    ) -> None:
        self._replay, self._batch, self._policy = replay, batch, policy
        self._show_full, self._show_tail = show_full, show_tail
        late = [r for r in requests if isinstance(r, DirectBefore)]
        everywhere = [r for r in requests if isinstance(r, DirectRow)]
        self._tails: dict[tuple[int, int], list[DirectBefore]] = {}
        if tails:
            everywhere = list(dict.fromkeys([*everywhere, *(r.donor for r in late)]))
            for request in sorted(late, key=lambda r: (r.prompt, r.start, r.block, r.protect)):
                self._tails.setdefault((request.prompt, request.start), []).append(request)
        rows = [_Row(r.block, r.protect, batch.lengths, (r,)) for r in everywhere]
        rows += [] if tails else _packed(late, batch.size)
        self._rows = sorted(rows, key=lambda r: r.block)
        self._contributions: dict[int, Tensor] = {}

    def advance(self, block: nn.Module, index: int, before_BTD: Tensor, after_BTD: Tensor, passed: State) -> None:
        """Shows what the block makes of every row, and keeps its own contribution for later blocks.

        Args:
            before_BTD, after_BTD: the plain forward's residual stream around the block.
            passed: what blocks of the plain forward have passed on so far.
        """
        rows = [row for row in self._rows if row.block < index]
        if rows:
            self._run(block, index, rows, before_BTD, passed)
        if any(row.block == index for row in self._rows):
            self._contributions[index] = after_BTD - before_BTD

    def _run(self, block: nn.Module, index: int, rows: Sequence[_Row], resid_BTD: Tensor, passed: State) -> None:
        prompts = torch.arange(self._batch.size, device=resid_BTD.device)
        caller = RowCaller(self._replay, self._policy, prompts)
        given = torch.stack([resid_BTD, *(self._without(row, resid_BTD) for row in rows)])
        keys: list[Tensor] = []
        values: list[Tensor] = []
        attends = False
        capture = CacheMaker() if self._tails else None
        for result in caller.calls(block, index, given, _carried(passed, len(given)), capture):
            served = [rows[i - 1].served if i else () for i in range(result.first, result.first + len(result.after))]
            self._show_full(index, served, result)
            if result.captured.keys is not None and result.captured.values is not None:
                own = len(result.after)
                keys.append(result.captured.keys.unflatten(0, (-1, self._batch.size))[-own:])
                values.append(result.captured.values.unflatten(0, (-1, self._batch.size))[-own:])
            attends |= self._replay.attends(index, result.captured)
        lent = (torch.cat(keys), torch.cat(values)) if keys else None
        slots = {row.served[0]: i for i, row in enumerate(rows, start=1)}
        for (prompt, start), requests in self._tails.items():
            born = [r for r in requests if r.block < index]
            if born:
                at = [0, *(slots[r.donor] for r in born)]
                own_lent = None if lent is None else (lent[0][at, prompt, :, :start], lent[1][at, prompt, :, :start])
                self._run_tails(block, index, born, resid_BTD, Lender(own_lent, start), attends, passed)

    def _run_tails(
        self,
        block: nn.Module,
        index: int,
        requests: Sequence[DirectBefore],
        resid_BTD: Tensor,
        lender: Lender,
        attends: bool,
        passed: State,
    ) -> None:
        """Tails own the plain residual stream from ``start`` on; only the lent keys and values differ."""
        prompt, start = requests[0].prompt, requests[0].start
        caller = RowCaller(self._replay, self._policy, torch.tensor([prompt], device=resid_BTD.device))
        own = resid_BTD[prompt : prompt + 1, start:]
        given = own[None].expand(len(requests) + 1, *own.shape)
        state = {key: tuple(t[prompt : prompt + 1] for t in tensors) for key, tensors in passed.items()}
        carry = _carried(state, len(given))
        for result in caller.calls(block, index, given, carry, lender, start, attends=attends):
            last = result.first + len(result.after)
            served: list[Sequence[Request]] = [(requests[i - 1],) if i else () for i in range(result.first, last)]
            self._show_tail(index, served, result, prompt, start)

    def _without(self, row: _Row, resid_BTD: Tensor) -> Tensor:
        positions = torch.arange(resid_BTD.shape[1], device=resid_BTD.device)[None]
        before = torch.tensor(row.before, device=resid_BTD.device)[:, None]
        left_out = (positions >= row.protect) & (positions < before)
        return resid_BTD - self._contributions[row.block] * left_out[..., None]


def _carried(passed: State, rows: int) -> Carry | None:
    """What blocks passed on, once for every row; None where they pass nothing."""
    if not passed:
        return None
    return {key: tuple(t[None].repeat(rows, *[1] * t.ndim) for t in tensors) for key, tensors in passed.items()}


def _packed(late: Sequence[DirectBefore], batch: int) -> list[_Row]:
    """Full rows in the place of tails: one row takes one starting token from every prompt."""
    queues: dict[tuple[int, int], dict[int, list[DirectBefore]]] = {}
    for request in late:
        queues.setdefault((request.block, request.protect), {}).setdefault(request.prompt, []).append(request)
    rows: list[_Row] = []
    for (block, protect), by_prompt in queues.items():
        for taken in range(max(len(queue) for queue in by_prompt.values())):
            served = tuple(queue[taken] for queue in by_prompt.values() if taken < len(queue))
            starts = {r.prompt: r.start for r in served}
            rows.append(_Row(block, protect, tuple(starts.get(p, protect) for p in range(batch)), served))
    return rows

"""Direct rows: what each later block alone makes of its input without an earlier block's contribution.

Block l sees h_l − c_s where block s is left out, and nothing is carried on to block l+1. All rows of a block are
therefore made afresh from the plain residual stream and the kept contributions, and one visit of the block
serves every s and, through lent keys and values, every starting token.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront import views
from bathyscope.wavefront.batch import Batch, within
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.plain import PlainForward
from bathyscope.wavefront.plan import packed
from bathyscope.wavefront.probe import BaselineView, RowsView
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow
from bathyscope.wavefront.slots import Lender, Slots
from bathyscope.wavefront.tail import group_tails


class _Row(NamedTuple):
    """One full row: block ``block`` left out at tokens ``protect`` … ``before`` − 1 of each prompt."""

    block: int
    protect: int
    before: tuple[int, ...]
    served: Sequence[Request]


class DirectRows:
    """All direct rows of one batch.

    Args:
        plain: the plain forward, which is a block ahead.
        tails: whether tails may take lent keys and values; otherwise full rows are computed in their place.
    """

    def __init__(
        self,
        requests: Sequence[SkipRow | SkipBefore],
        plain: PlainForward,
        replay: Replay,
        batch: Batch,
        policy: CallPolicy,
        *,
        tails: bool,
    ) -> None:
        self._plain, self._replay, self._batch, self._policy = plain, replay, batch, policy
        late = [r for r in requests if isinstance(r, SkipBefore)]
        everywhere = [r for r in requests if isinstance(r, SkipRow)]
        self._tails = group_tails(late if tails else [])
        donors = [r.donor for group in self._tails for r in group]
        rows = [_Row(r.block, r.protect, batch.lengths, (r,)) for r in dict.fromkeys([*everywhere, *donors])]
        if not tails:
            rows += [_Row(r.block, r.protect, before, served) for r, served, before in packed(late, batch.size)]
        self._rows = sorted(rows, key=lambda r: r.block)
        self._contributions: dict[int, Tensor] = {}
        # where a block's contribution is left out, [batch, tokens, 1]
        self._left_out = cache(
            lambda protect, before: within(batch.tokens, protect, before, batch.ids_BT.device)[..., None]
        )

    def advance(self, block: nn.Module, index: int, plain: BaselineView) -> Iterator[RowsView]:
        """Shows what the block makes of every row, and keeps its own contribution for later blocks."""
        rows = [row for row in self._rows if row.block < index]
        if rows:
            yield from self._run(block, plain, rows)
        if any(row.block == index for row in self._rows):
            self._contributions[index] = plain.after_BTD - plain.before_BTD

    def _run(self, block: nn.Module, plain: BaselineView, rows: Sequence[_Row]) -> Iterator[RowsView]:
        slots = Slots(self._replay, self._policy, 1 + len(rows))
        slots.receive(self._plain.passed)
        slots.state[0] = plain.before_BTD
        for slot, row in enumerate(rows, start=1):
            left_out = self._contributions[row.block] * self._left_out(row.protect, row.before)
            torch.sub(plain.before_BTD, left_out, out=slots.state[slot])
        lends = range(len(slots.state)) if self._tails else ()
        for result in slots.run(block, plain.block, range(len(slots.state)), lends=lends):
            served = [rows[slot - 1].served if slot else () for slot in result.slots]
            yield from views.of_full(plain, served, result, self._batch.lengths)
        slot_of = {row.served[0]: slot for slot, row in enumerate(rows, start=1)}
        for group in self._tails:
            born = [r for r in group if r.block < plain.block]
            if born:
                donors = [0, *(slot_of[r.donor] for r in born)]
                yield from self._run_tails(block, plain, born, slots.lender(donors, born[0].prompt, born[0].start))

    def _run_tails(
        self, block: nn.Module, plain: BaselineView, requests: Sequence[SkipBefore], lender: Lender
    ) -> Iterator[RowsView]:
        """Tails own the plain residual stream from ``start`` on; only the lent keys and values differ."""
        prompt, start = lender.prompt, lender.start
        slots = Slots(self._replay, self._policy, 1 + len(requests), prompt=prompt, start=start)
        slots.receive(self._plain.passed)
        slots.state[:] = plain.before_BTD[prompt, start:]
        for result in slots.run(block, plain.block, range(len(slots.state)), lender=lender):
            yield views.of_tails(plain, requests, result, prompt, start, self._batch.lengths[prompt])

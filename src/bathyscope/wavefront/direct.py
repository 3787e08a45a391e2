"""Direct rows: how each later block alone reacts to an input that lacks an earlier block's contribution.

Block l sees h_l − c_s where block s is left out, and nothing is carried on to block l+1. All rows of a block are
therefore rebuilt from the plain residual stream and the stored contributions. One visit of the block serves every s
and, through lent keys and values, every starting token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront import views
from bathyscope.wavefront.batch import Batch, within
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.plain import PlainForward
from bathyscope.wavefront.plan import packed
from bathyscope.wavefront.prefix import LentPrefix
from bathyscope.wavefront.probe import BaselineView, RowsView
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow
from bathyscope.wavefront.slots import CONTROL, Slots
from bathyscope.wavefront.tail import group_tails


@dataclass(frozen=True)
class _DirectRow:
    """One full row: block ``block`` left out at tokens ``protect`` … ``before`` − 1 of each prompt."""

    block: int
    protect: int
    before: tuple[int, ...]
    requests: Sequence[Request]


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
        self._plain = plain
        self._replay = replay
        self._batch = batch
        self._policy = policy
        late = [r for r in requests if isinstance(r, SkipBefore)]
        everywhere = [r for r in requests if isinstance(r, SkipRow)]
        self._tails = group_tails(late if tails else [])
        donors = [r.donor for group in self._tails for r in group]
        rows = [_DirectRow(r.block, r.protect, batch.lengths, (r,)) for r in dict.fromkeys([*everywhere, *donors])]
        if not tails:
            rows += [_DirectRow(r.block, r.protect, before, group) for r, group, before in packed(late, batch.size)]
        self._rows = sorted(rows, key=lambda r: r.block)
        self._contributions: dict[int, Tensor] = {}
        # Where a block's contribution is left out, [batch, tokens, 1]: formed once, for all later blocks that see it.
        self._mask_left_out = cache(
            lambda protect, before: within(batch.tokens, protect, before, batch.ids_BT.device)[..., None]
        )

    def advance(self, block: nn.Module, index: int, plain: BaselineView) -> Iterator[RowsView]:
        """Show what the block makes of every row, and store its own contribution for later blocks."""
        rows = [row for row in self._rows if row.block < index]
        if rows:
            yield from self._run(block, plain, rows)
        if any(row.block == index for row in self._rows):
            self._contributions[index] = plain.after_BTD - plain.before_BTD

    def _run(self, block: nn.Module, plain: BaselineView, rows: Sequence[_DirectRow]) -> Iterator[RowsView]:
        """Run the block on the control and on all rows, then on the tails that these lend to."""
        # New slots for every block: nothing is carried on, so no state outlives a visit.
        slots = Slots(self._replay, self._policy, 1 + len(rows))
        slots.receive(self._plain.passed)
        slots.state[CONTROL] = plain.before_BTD
        for slot, row in enumerate(rows, start=1):
            left_out = self._contributions[row.block] * self._mask_left_out(row.protect, row.before)
            torch.sub(plain.before_BTD, left_out, out=slots.state[slot])
        every_slot = range(len(slots.state))
        for result in slots.run(block, plain.block, every_slot, lends=every_slot if self._tails else ()):
            requests = [() if slot == CONTROL else rows[slot - 1].requests for slot in result.slots]
            yield from views.of_full(plain, requests, result, self._batch.lengths)
        slot_of = {row.requests[0]: slot for slot, row in enumerate(rows, start=1)}
        for group in self._tails:
            born = [r for r in group if r.block < plain.block]
            if born:
                donors = [CONTROL, *(slot_of[r.donor] for r in born)]
                prefix = slots.lend_prefix(donors, born[0].prompt, born[0].start)
                yield from self._run_tails(block, plain, born, prefix)

    def _run_tails(
        self, block: nn.Module, plain: BaselineView, requests: Sequence[SkipBefore], prefix: LentPrefix
    ) -> Iterator[RowsView]:
        """Run tails on the plain residual stream from ``start`` on; they differ only in the lent keys and values."""
        prompt = prefix.prompt
        start = prefix.start
        slots = Slots(self._replay, self._policy, 1 + len(requests), prompt=prompt, start=start)
        slots.receive(self._plain.passed)
        slots.state[:] = plain.before_BTD[prompt, start:]
        for result in slots.run(block, plain.block, range(len(slots.state)), prefix=prefix):
            yield views.of_tails(plain, requests, result, prompt, start, self._batch.lengths[prompt])

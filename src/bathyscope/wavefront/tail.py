"""Tail rows: histories of one prompt that own only the tokens from ``start`` on.

Tokens before ``start`` equal those of a donor row at every block, so the donor's keys and values are lent.
All tails of one prompt and start have the same shape and run together, with a control tail among them.
"""

from collections.abc import Iterable, Iterator, Sequence

from torch import Tensor, nn

from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront import views
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.full import FullRows
from bathyscope.wavefront.probe import BaselineView, RowsView, TailStates
from bathyscope.wavefront.rows import Request, SkipBefore
from bathyscope.wavefront.slots import Slots


class TailRows(Slots):
    """The tails of one prompt and start.

    Rows are cut to the prompt's own length only where they are shown, since the recorded arguments are as long as the
    batch: a tail of a padded batch keeps the pads, which nothing looks at.

    Args:
        requests: tails to compute, sorted by block; block L−1 is left out by the caller, since skipping the
            last block earlier changes nothing at later tokens.
        full: the rows that lend.
    """

    def __init__(
        self, requests: Sequence[SkipBefore], replay: Replay, policy: CallPolicy, full: FullRows, length: int
    ) -> None:
        self.prompt, self.start, self._length = requests[0].prompt, requests[0].start, length
        super().__init__(replay, policy, 1 + len(requests), prompt=self.prompt, start=self.start)
        self._requests, self._full = list(requests), full
        self._born = 0

    def advance(self, block: nn.Module, index: int, plain: BaselineView) -> Iterator[RowsView]:
        """Moves the control tail and all born tails over one block, after the full rows."""
        first = self._requests[0].block
        if index == first:
            self.state[0] = self._full.control[self.prompt : self.prompt + 1, self.start :]
            self.receive(self._full.control_passed)
        if index <= first:
            return
        self._spawn(index)
        donors = [0, *(self._full.slot(request.donor) for request in self._requests[: self._born])]
        lender = self._full.lender(donors, self.prompt, self.start)
        for result in self.run(block, index, range(1 + self._born), lender=lender):
            yield views.of_tails(plain, self._requests, result, self.prompt, self.start, self._length)

    def states(self, n_blocks: int, baseline_BTD: Tensor) -> TailStates:
        """Final states of the control tail and of all tails."""
        self._spawn(n_blocks)
        own = self.state[:, 0, : self._length - self.start]
        rows: dict[Request, Tensor] = {request: own[slot] for slot, request in enumerate(self._requests, start=1)}
        return TailStates(self.prompt, self.start, own[0], baseline_BTD[self.prompt, self.start : self._length], rows)

    def _spawn(self, boundary: int) -> None:
        """A tail begins behind its block as a copy of the control tail."""
        while self._born < len(self._requests) and self._requests[self._born].block < boundary:
            self._born += 1
            self.copy(0, self._born)


def group_tails(requests: Iterable[SkipBefore]) -> list[list[SkipBefore]]:
    """Requests by prompt and start, each group sorted by block."""
    groups: dict[tuple[int, int], list[SkipBefore]] = {}
    for request in requests:
        groups.setdefault((request.prompt, request.start), []).append(request)
    return [sorted(group, key=lambda r: r.block) for _, group in sorted(groups.items())]

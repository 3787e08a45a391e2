"""Tail rows: histories of one prompt that own only the tokens from ``start`` on.

Take "block s is skipped at the tokens before t". Attention is causal, so the tokens before t never see that the change
ends at t: at every block they are the tokens of the row in which s is skipped everywhere. That row is the tail's
*donor*. The engine adds it to the full rows if no measure asked for it. It lends the tail its keys and values before t.

The tail computes the tokens from t on, block by block:

- Up to boundary s (the stream h_s that goes into block s) nothing differs, and block s still reads h_s at every token:
  skipping replaces its output. So the tokens from t on leave block s as they do in the control. The tail begins there,
  as a copy. The same holds where only the attention or the MLP of block s is skipped.
- In every block l > s its tokens attend to the donor's keys and values before t and to their own from t on. A tail
  first differs from the control through this attention; measures of later tokens look for that difference.
- Skipping the last block changes no later token, so such a tail is not computed; measures hold 0 for it.

Position-dependent arguments (rotary tables, masks) are those that the recording has for the tokens from t on
(``model/anatomy/replay.py``); the borrowed keys and values are before the tail's own in the cache that its block is
given (``prefix.py``, ``model/anatomy/cache.py``).

All tails of one prompt and start have the same shape and run in common calls. A tail of the control leads them: it
takes the control's keys and values, changes nothing, and rounds as the other tails do. It begins with the first tail,
and not at h_0, because until then the full rows' control has the same numbers.
"""

from collections.abc import Iterable, Iterator, Sequence

from torch import Tensor, nn

from bathyscope.model.anatomy.replay import Replay
from bathyscope.wavefront import views
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.full import FullRows
from bathyscope.wavefront.probe import BaselineView, RowsView, TailStates
from bathyscope.wavefront.rows import Request, SkipBefore
from bathyscope.wavefront.slots import CONTROL, Slots


class TailRows(Slots):
    """The tails of one prompt and start.

    Rows are cut to the prompt's own length only where they are shown, because the recorded arguments are as long as the
    batch: a tail of a padded batch computes the pads too, which no token looks at.

    Args:
        requests: tails to compute, sorted by block. The caller leaves out block L−1: no block comes after it, so
            skipping it at earlier tokens changes nothing at later ones.
        full: the rows that lend.
        length: the prompt's own number of tokens, without pads.
    """

    def __init__(
        self, requests: Sequence[SkipBefore], replay: Replay, policy: CallPolicy, full: FullRows, length: int
    ) -> None:
        self.prompt = requests[0].prompt
        self.start = requests[0].start
        super().__init__(replay, policy, 1 + len(requests), prompt=self.prompt, start=self.start)
        self._requests = list(requests)
        self._full = full
        self._length = length
        self._born = 0

    def advance(self, block: nn.Module, index: int, plain: BaselineView) -> Iterator[RowsView]:
        """Move the control tail and all tails that have begun over one block, after the full rows."""
        first_skipped = self._requests[0].block
        if index == first_skipped:
            # The full rows have just run this block, so the control tail begins behind it. The first tail is copied
            # from it in the next visit, when the wave is at the block that is the first to differ.
            self.state[CONTROL] = self._full.control[self.prompt : self.prompt + 1, self.start :]
            self.receive(self._full.control_passed)
        if index <= first_skipped:
            return
        self._spawn(index)
        # The full rows have run this block in the same visit, so what they lend is of this very block.
        donors = [CONTROL, *(self._full.slot(request.donor) for request in self._requests[: self._born])]
        prefix = self._full.lend_prefix(donors, self.prompt, self.start)
        for result in self.run(block, index, range(1 + self._born), prefix=prefix):
            yield views.of_tails(plain, self._requests, result, self.prompt, self.start, self._length)

    def states(self, n_blocks: int, baseline_BTD: Tensor) -> TailStates:
        """Return final states of the control tail and of all tails."""
        self._spawn(n_blocks)
        states_SND = self.state[:, 0, : self._length - self.start]
        rows: dict[Request, Tensor] = {r: states_SND[slot] for slot, r in enumerate(self._requests, start=1)}
        baseline_ND = baseline_BTD[self.prompt, self.start : self._length]
        return TailStates(self.prompt, self.start, states_SND[CONTROL], baseline_ND, rows)

    def _spawn(self, boundary: int) -> None:
        """Begin each tail behind the block it skips, as a copy of the control tail.

        Its tokens have run that block; only the keys and values that it borrows from now on are another row's.
        """
        while self._born < len(self._requests) and self._requests[self._born].block < boundary:
            self._born += 1
            self.copy(CONTROL, self._born)


def group_tails(requests: Iterable[SkipBefore]) -> list[list[SkipBefore]]:
    """Group requests by prompt and start, each group sorted by block."""
    groups: dict[tuple[int, int], list[SkipBefore]] = {}
    for request in requests:
        groups.setdefault((request.prompt, request.start), []).append(request)
    return [sorted(group, key=lambda request: request.block) for _, group in sorted(groups.items())]

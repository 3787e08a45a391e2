"""Keys and values that full rows lend to tails, stored while a block is visited and taken right after.

Attention at token t looks at the keys and values of the tokens up to t. A tail computes the tokens from ``start`` on
alone; the keys and values before them are those of its *donor*, a row that owns all tokens and equals the tail there.
They are the donor's in the block that both have just run, so they are stored for one visit only and never recomputed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.wavefront.places import at


@dataclass(frozen=True)
class LentPrefix:
    """Keys and values of one block at the tokens before ``start``, lent to the tails of one prompt.

    Args:
        keys, values: [lending rows, batch, heads, tokens, head width]; None where the block computed none.
        donors: for every tail the place of its donor among the lending rows.
        prompt: the prompt of the batch whose tokens are lent.
        start: tokens 0 … start − 1 are lent.
        attends: the block looks at keys and values, so that tails need a mask.
    """

    keys: Tensor | None
    values: Tensor | None
    donors: Sequence[int]
    prompt: int
    start: int
    attends: bool

    def cache(self, tails: Sequence[int]) -> CaptureCache:
        """Return the cache for a call on some tails, given by their places in ``donors``."""
        if self.keys is None or self.values is None:
            return CaptureCache(start=self.start)
        rows = [self.donors[tail] for tail in tails]
        return CaptureCache(self._prefix_of(self.keys, rows), self._prefix_of(self.values, rows), self.start)

    def _prefix_of(self, states: Tensor, rows: list[int]) -> Tensor:
        """Return the lent part of keys or values, one row for each tail of the call."""
        if len(set(rows)) == 1:
            # All tails share one donor, as replaced rows do: a view of its row repeats it without a copy.
            return states[rows[0], self.prompt, :, : self.start].expand(len(rows), -1, -1, -1)
        return states[at(rows, states.device), self.prompt, :, : self.start]


class LentRows:
    """What some rows lend of one visit of a block, collected call after call.

    Args:
        slots: the slots that lend, in the order in which the visit runs them.
    """

    def __init__(self, slots: Sequence[int] = ()) -> None:
        self._slots = frozenset(slots)
        self._place_of_slot = {slot: place for place, slot in enumerate(slots)}
        self._pieces: list[tuple[Tensor, Tensor]] = []
        self._attends = False

    def add(self, slots: Sequence[int], keys: Tensor | None, values: Tensor | None, *, attends: bool) -> None:
        """Store the keys and values of those rows of a call that lend, and let go of the others'.

        They are of one block, and are dropped when the next block lends: never more than one block's keys and values
        of the lending rows are stored.

        Args:
            slots: of the rows of the call.
            keys, values: [rows, batch, heads, tokens, head width]; None where the block computed none.
            attends: the block looked at keys and values, its own or those that another block passed on.
        """
        self._attends |= attends
        lending_rows = [row for row, slot in enumerate(slots) if slot in self._slots]
        if keys is None or values is None or not lending_rows:
            return
        places = at(lending_rows, keys.device)
        keys, values = keys[places], values[places]
        if isinstance(places, slice) and len(lending_rows) < len(slots):
            # A slice is a view, which would hold the memory of all rows of the call.
            keys, values = keys.clone(), values.clone()
        self._pieces.append((keys, values))

    def prefix(self, donors: Sequence[int], prompt: int, start: int) -> LentPrefix:
        """Return what is lent to some tails.

        Args:
            donors: for each tail the slot of its donor.
            prompt: the prompt of the tails.
            start: their first token.
        """
        if len(self._pieces) > 1:
            # Joined once, for the tails of all prompts and starts.
            keys, values = (torch.cat(pieces) for pieces in zip(*self._pieces))
            self._pieces = [(keys, values)]
        lent_keys, lent_values = self._pieces[0] if self._pieces else (None, None)
        places = [self._place_of_slot[donor] for donor in donors]
        return LentPrefix(lent_keys, lent_values, places, prompt, start, self._attends)

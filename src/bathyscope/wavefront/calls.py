"""Calls of a block: how many rows go into one, and what is known of it when it has run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from bathyscope.errors import is_out_of_memory, warn
from bathyscope.model.memory import control_rides, out_of_memory
from bathyscope.wavefront.places import is_accelerator


@dataclass
class CallPolicy:
    """How rows are split into calls: learnt anew where memory does not suffice.

    Args:
        tokens: tokens per call; on a CPU time per token is flat from about 400 and with two threads falls
            a little further up to some thousands, on an accelerator larger calls are better.
        control_in_every_call: see ``control_rides``.
    """

    tokens: int
    control_in_every_call: bool
    _said: bool = field(default=False, init=False, repr=False)

    @classmethod
    def for_model(cls, dtype: torch.dtype, device: torch.device, tokens: int | None = None) -> CallPolicy:
        """The policy for a dtype and device."""
        return cls(tokens or default_tokens(device), control_rides(dtype))

    def shrink(self, rows: int, tokens: int, device: torch.device) -> None:
        """A call of so many rows of so many tokens each was out of memory: from here on calls have half as many.

        What a call changes is written when it has run, so that it can be made again in pieces.

        Raises:
            ModelError: it was a single row's.
        """
        _give_back(device)
        if rows < 2:
            raise out_of_memory(f"A call of a block on one row of {tokens} tokens", device)
        if not self._said:
            warn(
                f"A call of a block on {rows * tokens} tokens was out of memory; it is made in smaller pieces, and so "
                f"are all that follow. To begin with such pieces, give call_tokens={rows // 2 * tokens} "
                "(--call-tokens)."
            )
        self.tokens, self._said = rows // 2 * tokens, True


def default_tokens(device: torch.device) -> int:
    """Tokens in a call where memory sets no limit."""
    return 32768 if is_accelerator(device) else 4800


@dataclass(frozen=True)
class CallResult:
    """What one call did to some rows, and the control beside them.

    Args:
        slots: which rows, [rows].
        before, after: their residual stream, [rows, batch, tokens, width].
        control_before, control_after: the control's, [batch, tokens, width].
        parts: the rows' contributions; empty unless they were tapped.
        control_parts: the control's, where it was in this call.
    """

    slots: Sequence[int]
    before: Tensor
    after: Tensor
    control_before: Tensor
    control_after: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    control_parts: Mapping[str, Tensor] = field(default_factory=dict)


def even_pieces(rows: int, most: int) -> Iterator[tuple[int, int]]:
    """``rows`` split into as few ranges of at most ``most`` as possible, of nearly equal size."""
    pieces = -(-rows // max(1, most))
    edges = [rows * i // pieces for i in range(pieces + 1)]
    yield from pairwise(edges)


def halves(pieces: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Ranges, cut into ones of at most ``most``."""
    for first, last in pieces:
        yield from ((first + a, first + b) for a, b in even_pieces(last - first, most))


@contextmanager
def while_memory_lasts() -> Iterator[None]:
    """Inside, running out of memory ends what is done and nothing else: its error is forgotten, with all it holds."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise


def in_pieces(count: int, most: int, do: Callable[[int, int], None], what: str, device: torch.device) -> None:
    """Does something for ranges of at most ``most``, in their order; where one is out of memory, again in halves.

    Args:
        do: given first and one past the last; what a failed one has left behind is overwritten.
        what: it is that is done, for messages.

    Raises:
        ModelError: a range of one does not fit.
    """
    pending = deque(even_pieces(count, most))
    while pending:
        first, last = pending.popleft()
        done = False
        with while_memory_lasts():
            do(first, last)
            done = True
        if done:
            continue
        _give_back(device)
        if last - first < 2:
            raise out_of_memory(what, device)
        warn(f"{what} was out of memory; it is done in smaller pieces.")
        pending = deque(halves([(first, last), *pending], (last - first) // 2))


def _give_back(device: torch.device) -> None:
    """What torch keeps for itself of an accelerator's memory is free again."""
    if device.type == "cuda":
        torch.cuda.empty_cache()

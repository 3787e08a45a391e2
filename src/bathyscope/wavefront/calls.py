"""Calls of a block: how many rows go into one, what it returns, and what happens when memory runs out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from bathyscope.errors import is_out_of_memory, warn
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.memory import cached_tokens, control_rides, out_of_memory
from bathyscope.model.ranks import size
from bathyscope.wavefront.places import is_accelerator


@dataclass
class CallPolicy:
    """How rows are split into calls; calls shrink for good after one that ran out of memory.

    Args:
        tokens: tokens per call that there is room for; on a CPU time per token is flat from about 400 to where a call's
            arrays leave the cache, on an accelerator larger calls are better.
        control_in_every_call: the control runs again in each call, see ``control_rides``.
        cached: tokens of a call that still fits a cache; None = as many as there is room for.
    """

    tokens: int
    control_in_every_call: bool
    cached: int | None = None
    _has_warned: bool = field(default=False, init=False, repr=False)

    @classmethod
    def for_model(
        cls, anatomy: Anatomy, dtype: torch.dtype, device: torch.device, tokens: int | None = None
    ) -> CallPolicy:
        """Return the policy for a model in a dtype on a device."""
        # smaller calls would only run the control more often where it rides in each
        keeps_cached = not (is_accelerator(device) or control_rides(dtype))
        cached = cached_tokens(anatomy) if keeps_cached else None
        return cls(tokens or default_tokens(device), control_rides(dtype), cached)

    @property
    def in_call(self) -> int:
        """Tokens of a call: no more than there is room for, nor than a cache holds."""
        return self.tokens if self.cached is None else min(self.tokens, self.cached)

    def shrink(self, rows: int, tokens: int, device: torch.device) -> None:
        """Halve the calls to come, after one of this many rows of this many tokens each was out of memory.

        A call changes no slot until it has run, so it can be repeated in pieces. All later calls of the wavefront are
        smaller too: in float32 a row's numbers depend on the size of its calls by no more than rounding.

        Args:
            rows: without a control that rides along.
            tokens: of each row.

        Raises:
            ModelError: the call had a single row, which cannot be divided.
        """
        _free_cached_memory(device)
        if rows < 2:
            raise out_of_memory(f"A call of a block on one row of {tokens} tokens", device)
        if not self._has_warned:
            warn(
                f"A call of a block on {rows * tokens} tokens ran out of memory; this and all later calls are divided. "
                f"To begin with smaller calls, give call_tokens={rows // 2 * tokens} (--call-tokens)."
            )
        self.tokens = rows // 2 * tokens
        self._has_warned = True


def default_tokens(device: torch.device) -> int:
    """Return how many tokens a call has where memory sets no limit."""
    return 32768 if is_accelerator(device) else 4800


@dataclass(frozen=True)
class CallResult:
    """What one call did to some rows, and to the control next to them.

    Args:
        slots: which rows, [rows].
        before, after: their residual stream, [rows, batch, tokens, width].
        control_before, control_after: the control's, [batch, tokens, width]. The control may have run in an earlier
            call of the visit; of rows that catch up without it, these mean nothing.
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
    """Split ``rows`` into as few ranges of at most ``most`` as possible, of nearly equal size; none of no rows."""
    if not rows:
        return
    pieces = -(-rows // max(1, most))
    edges = [rows * i // pieces for i in range(pieces + 1)]
    yield from pairwise(edges)


def halves(pieces: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Cut ranges into ones of at most ``most``."""
    for first, last in pieces:
        yield from ((first + a, first + b) for a, b in even_pieces(last - first, most))


@contextmanager
def while_memory_lasts() -> Iterator[None]:
    """Leave the block when memory runs out, and forget the error with all the tensors that its frames hold."""
    try:
        yield
    except Exception as error:
        # one rank in smaller pieces would make other collectives than those that the others wait in
        if not is_out_of_memory(error) or size() > 1:
            raise


def in_pieces(
    count: int,
    most: int,
    do: Callable[[int, int], None],
    what: str,
    device: torch.device,
    *,
    last: bool = True,
) -> None:
    """Do something for ranges of at most ``most``, in their order; a range that runs out of memory is halved.

    Args:
        do: takes the first item and one past the last; a repeated range overwrites what a failed one left behind.
        what: names the task, for messages.
        last: the caller has nothing else to make smaller where a range of one item does not fit.

    Raises:
        ModelError: a range of one item does not fit; an OutOfMemoryError if this is not the ``last`` resort.
    """
    pending = deque(even_pieces(count, most))
    while pending:
        start, stop = pending.popleft()
        done = False
        with while_memory_lasts():
            do(start, stop)
            done = True
        if done:
            continue
        _free_cached_memory(device)
        if stop - start < 2:
            raise out_of_memory(what, device) if last else torch.OutOfMemoryError(f"{what}: out of memory")
        warn(f"{what} ran out of memory; it continues in smaller pieces.")
        pending = deque(halves([(start, stop), *pending], (stop - start) // 2))


def _free_cached_memory(device: torch.device) -> None:
    """Release the memory of an accelerator that torch holds for later use."""
    if device.type == "cuda":
        torch.cuda.empty_cache()

"""Calls of a block: how many rows go into one, and what is known of it when it has run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from bathyscope.wavefront.places import is_accelerator


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
        default = 32768 if is_accelerator(device) else 4800
        return cls(tokens or default, dtype not in (torch.float32, torch.float64))


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

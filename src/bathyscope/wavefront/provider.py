"""Where blocks come from. The wavefront visits them in order, so a provider may load and release as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from torch import nn


class BlockProvider(Protocol):
    """Lends one block at a time. Blocks are asked for in ascending order, now and then a few steps back."""

    def block(self, index: int) -> AbstractContextManager[nn.Module]:
        """The block, usable inside the context."""
        ...


class ResidentBlocks:
    """All blocks are in memory."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        self._blocks = blocks

    @contextmanager
    def block(self, index: int) -> Iterator[nn.Module]:
        """The block itself."""
        yield self._blocks[index]

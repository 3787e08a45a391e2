"""Where blocks come from. The wavefront visits them in order, so that they may be loaded and released on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from torch import nn

from bathyscope.streaming.lending import keeping, lent


class BlockProvider(Protocol):
    """Lends one block at a time. Blocks are asked for in ascending order, now and then a few steps back."""

    def block(self, index: int) -> AbstractContextManager[nn.Module]:
        """The block, usable inside the context."""
        ...

    def keeping(self, window: int) -> AbstractContextManager[None]:
        """Inside, rows go back by up to ``window`` − 1 blocks, and what is loaded had better stay so long."""
        ...


class OwnBlocks:
    """A model's own blocks, wherever their weights are."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        self._blocks = blocks

    @contextmanager
    def block(self, index: int) -> Iterator[nn.Module]:
        """The block, its weights in memory."""
        with lent(self._blocks[index]) as block:
            yield block

    def keeping(self, window: int) -> AbstractContextManager[None]:
        """Of streamed blocks, so many stay."""
        return keeping(self._blocks[0], window)

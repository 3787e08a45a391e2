"""Blocks that note when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import Tensor, nn

from bathyscope.model.streaming import lending


class Noting:
    """Lends blocks that are in memory, and notes which were asked for and how many were to stay."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.window = 0

    def lend(self, index: int) -> AbstractContextManager[None]:
        self.asked.append(index)
        return nullcontext()

    def keeping(self, window: int) -> AbstractContextManager[None]:
        self.window = window
        return nullcontext()

    def absent(self, index: int) -> dict[str, Tensor]:
        return {}


@contextmanager
def noting(blocks: Sequence[nn.Module]) -> Iterator[Noting]:
    """Inside, whoever asks for one of these blocks is noted."""
    lender = Noting()
    lending.register(blocks, lender)
    try:
        yield lender
    finally:
        for block in blocks:
            block.__dict__.pop(lending.LENDING)

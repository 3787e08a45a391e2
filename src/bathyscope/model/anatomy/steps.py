"""Walks over the blocks, one block at a step, so that several of them can share one visit of each block."""

from collections.abc import Generator
from typing import Generic, TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Prepares a walk up to its first step, which runs no block; then runs one block at every step."""


class BlockWalk(Generic[Result]):
    """A walk over the blocks that is taken further step by step, or to its end."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps
        # a list, since a walk may well end with None
        self._results: list[Result] = []

    def step(self) -> None:
        """Visit the next block; do nothing where the walk has ended."""
        try:
            next(self._steps)
        except StopIteration as end:
            self._results = self._results or [end.value]

    def result(self) -> Result:
        """Return what the walk gives, after the blocks that are left."""
        while not self._results:
            self.step()
        return self._results[0]

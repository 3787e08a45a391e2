"""Work that goes over the blocks one at a step, so that several such works can share one visit of each block."""

from collections.abc import Generator
from typing import Generic, TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A work: up to its first step it is prepared, and runs no block; then it runs one block at every step."""


class Work(Generic[Result]):
    """A work that is taken further step by step, or to its end."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps
        self._found: list[Result] = []

    def step(self) -> None:
        """One step; nothing where it has ended."""
        try:
            next(self._steps)
        except StopIteration as end:
            self._found = self._found or [end.value]

    def result(self) -> Result:
        """What it gives; what is left of it is done now."""
        while not self._found:
            self.step()
        return self._found[0]

"""How far a survey is, in seconds of the plan's cost model: blocks, readouts, and what measures compute afterwards.

With a large vocabulary most of the time goes to readouts, which come when the blocks are done. Each kind of work counts
by what it costs, so that the share that is done is a share of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bathyscope.core.progress import ProgressBar
    from bathyscope.surveying.cutting import Pace
    from bathyscope.surveying.work import PromptWork
    from bathyscope.wavefront.reader import Reader


@dataclass(frozen=True)
class Weights:
    """What some prompts cost by kind of work, in seconds.

    Args:
        blocks: of the rows that pass over the blocks together.
        readouts: of all states that are read out.
        after: of what measures compute once the rows have passed.
        vectors: how many states are read out.
    """

    blocks: float
    readouts: float
    after: float
    vectors: float

    @classmethod
    def of(cls, work: Sequence[PromptWork], pace: Pace, vocabulary: int) -> Weights:
        """Return the weights of prompts."""
        by_kind = pace.seconds_by_kind(work, vocabulary)
        in_blocks = by_kind["blocks"]
        after = sum(prompt.block_flops * prompt.share_after for prompt in work)
        all_flops = sum(prompt.block_flops for prompt in work)
        seconds_after = in_blocks * after / all_flops if all_flops else 0.0
        return cls(
            blocks=in_blocks - seconds_after,
            readouts=sum(by_kind.values()) - in_blocks,
            after=seconds_after,
            vectors=sum(prompt.compared + prompt.compared_in_all_ways for prompt in work),
        )

    @property
    def seconds(self) -> float:
        """All of them together."""
        return self.blocks + self.readouts + self.after


@dataclass
class ReadoutCounts:
    """How many states were read out, and how many were planned; plans of short prompts count too many."""

    planned: float = 0.0
    read: float = 0.0

    @property
    def per_planned(self) -> float:
        """States that are read out for each that is planned; 1 before any was."""
        return self.read / self.planned if self.read and self.planned else 1.0


class ConvoyProgress:
    """Moves a bar while batches are computed that share the visits of the blocks.

    Args:
        done: of the bar, before they begin.
        weights: of all of them together.
        counts: of readouts in the batches before, which these are added to.
    """

    def __init__(self, bar: ProgressBar, done: float, weights: Weights, counts: ReadoutCounts | None = None) -> None:
        self._bar, self._done, self._weights = bar, done, weights
        self._counts = ReadoutCounts() if counts is None else counts
        self._vectors = weights.vectors * self._counts.per_planned
        self._visited = self._read = self._after = 0.0

    def visit(self, blocks: int, of: int) -> None:
        """So many blocks were visited."""
        self._visited = blocks / of
        self._tell()

    def compute_after(self, seconds: float) -> None:
        """So many of the seconds afterwards have passed."""
        self._after = seconds
        self._tell()

    @contextmanager
    def watch(self, reader: Reader) -> Iterator[None]:
        """Count what a reader reads out meanwhile."""
        reader.on_read = self._count
        try:
            yield
        finally:
            reader.on_read = None
            self._counts.planned += self._weights.vectors
            self._counts.read += self._read

    def _count(self, vectors: int) -> None:
        self._read += vectors
        self._tell()

    def _tell(self) -> None:
        weights = self._weights
        # counts of readouts are estimates, which must not run into what comes later
        read = min(1.0, self._read / self._vectors) if self._vectors else 0.0
        after = min(self._after, weights.after)
        self._bar.advance_to(self._done + weights.blocks * self._visited + weights.readouts * read + after)

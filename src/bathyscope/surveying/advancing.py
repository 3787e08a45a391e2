"""How far a survey is, in seconds of the plan's cost model: blocks, readouts, and what measures compute afterwards.

With a large vocabulary most of the time goes to readouts, which come when the blocks are done. Each kind of work counts
by what it costs, so that the share that is done is a share of the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from bathyscope.core.progress import ProgressBar
    from bathyscope.surveying.cutting import Pace
    from bathyscope.surveying.work import PromptWork
    from bathyscope.wavefront.reader import Reader

_Kind = Literal["blocks", "readouts", "after"]
_KINDS: Final[tuple[_Kind, ...]] = ("blocks", "readouts", "after")
_TELLING: Final = 0.02
"""Of a kind of work, what has to be done before its own pace says how long the rest of it takes."""


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


class TimeLeft:
    """How long the rest takes, by the pace that each kind of work has had so far.

    Machines differ in what blocks take to what readouts take, by more than the cost model knows.

    Args:
        total: of all that is to be computed.
    """

    def __init__(self, total: Weights) -> None:
        self._total = total
        self._done: dict[_Kind, float] = dict.fromkeys(_KINDS, 0.0)
        self._taken: dict[_Kind, float] = dict.fromkeys(_KINDS, 0.0)
        self._last = time.monotonic()

    def note(self, kind: _Kind, seconds: float) -> None:
        """So many of the cost model's seconds of a kind were done since the last note."""
        now = time.monotonic()
        self._done[kind] += seconds
        self._taken[kind] += now - self._last
        self._last = now

    def settle(self, kind: _Kind, seconds: float) -> None:
        """So many more of them are not needed."""
        self._done[kind] += seconds

    @property
    def seconds(self) -> float | None:
        """Seconds to go; None before anything is done."""
        done = sum(self._done.values())
        if done <= 0:
            return None
        mean_pace = sum(self._taken.values()) / done
        left = 0.0
        for kind in _KINDS:
            total = float(getattr(self._total, kind))
            is_telling = self._done[kind] > _TELLING * total
            pace = self._taken[kind] / self._done[kind] if is_telling else mean_pace
            left += max(0.0, total - self._done[kind]) * pace
        return left


class ConvoyProgress:
    """Moves a bar while batches are computed that share the visits of the blocks.

    Args:
        done: of the bar, before they begin.
        weights: of all of them together.
        counts: of readouts in the batches before, which these are added to.
        left: what estimates the time left; None = the bar does.
    """

    def __init__(
        self,
        bar: ProgressBar,
        done: float,
        weights: Weights,
        counts: ReadoutCounts | None = None,
        left: TimeLeft | None = None,
    ) -> None:
        self._bar, self._done, self._weights = bar, done, weights
        self._counts = ReadoutCounts() if counts is None else counts
        self._left = left
        self._noted: dict[_Kind, float] = dict.fromkeys(_KINDS, 0.0)
        self._vectors = weights.vectors * self._counts.per_planned
        self._visited = self._read = self._after = 0.0

    def visit(self, blocks: int, of: int) -> None:
        """So many blocks were visited."""
        self._visited = blocks / of
        self._tell("blocks")

    def compute_after(self, seconds: float) -> None:
        """So many of the seconds afterwards have passed."""
        self._after = seconds
        self._tell("after")

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
        self._tell("readouts")

    def finish(self) -> None:
        """All of it is done, with more or less work than was planned."""
        if self._left is not None:
            for kind in _KINDS:
                self._left.settle(kind, float(getattr(self._weights, kind)) - self._noted[kind])

    def _tell(self, kind: _Kind) -> None:
        weights = self._weights
        # counts of readouts are estimates, which must not run into what comes later
        read = min(1.0, self._read / self._vectors) if self._vectors else 0.0
        after = min(self._after, weights.after)
        by_kind: dict[_Kind, float] = {
            "blocks": weights.blocks * self._visited,
            "readouts": weights.readouts * read,
            "after": after,
        }
        if self._left is not None:
            self._left.note(kind, by_kind[kind] - self._noted[kind])
            self._noted[kind] = by_kind[kind]
        self._bar.advance_to(
            self._done + sum(by_kind.values()), seconds_left=None if self._left is None else self._left.seconds
        )

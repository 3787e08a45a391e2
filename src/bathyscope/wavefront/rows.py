"""Rows: the alternative histories of the residual stream that measures may ask for.

A request is frozen data; equal requests of several measures are one row. Every wavefront also carries a
control row, in which nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from bathyscope.errors import OptionError
from bathyscope.schedule import Schedule


@dataclass(frozen=True)
class ScheduleRow:
    """All tokens follow ``schedule``; the first ``protect`` tokens keep their real residual stream.

    Protection needs every slot of the schedule to stand for a boundary, as in swaps.
    """

    schedule: Schedule
    protect: int = 0

    def __post_init__(self) -> None:
        if self.protect and len(self.schedule) != self.schedule.n_blocks:
            raise OptionError(
                f"protect={self.protect} needs a schedule that runs as many blocks as the model has; "
                f"given: {self.schedule}."
            )


@dataclass(frozen=True)
class SkipRow:
    """Block ``block`` is skipped at every token from ``protect`` on: h̄_{s+1}[t] := h_s[t]."""

    block: int
    protect: int = 1


@dataclass(frozen=True)
class SkipBefore:
    """Block ``block`` is skipped at tokens ``protect … start−1`` of one prompt of the batch.

    Only tokens from ``start`` on are observed. Tokens before it equal those of ``donor`` at every block, so
    that row's keys and values serve this one (a tail row); where a family cannot lend keys and values, the
    full row is computed and its tail shown.
    """

    block: int
    prompt: int
    start: int
    protect: int = 1

    @property
    def donor(self) -> SkipRow:
        """The full row whose tokens before ``start`` this row shares."""
        return SkipRow(self.block, self.protect)


Request = ScheduleRow | SkipRow | SkipBefore

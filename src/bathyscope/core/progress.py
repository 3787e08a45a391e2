"""How far long work is, on standard error: a bar at a terminal, and a line now and then in a log."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LOGGER: Final = logging.getLogger("bathyscope")
"""Lines go to its handlers, where it or the program has any, and else to standard error."""
_PATIENCE = 5.0
_SHORTEST, _LONGEST = 10.0, 600.0
"""Seconds between two lines: a tenth of what has passed, within these."""


class ProgressBar:
    """Shows itself once the work turns out to take longer than five seconds.

    ``total`` is in any unit, ``done`` what was done of it in an earlier, interrupted run.
    """

    def __init__(self, title: str, total: float, done: float = 0.0, quiet: bool = False) -> None:
        self._title = title
        self._total = total
        self._start = done
        self._done = done
        self._quiet = quiet
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._last_line: float | None = None
        """When the last line was written."""

    def advance_to(self, done: float) -> None:
        """``done`` of the total is finished."""
        self._done = done
        if self._quiet:
            return
        if self._bar is None and self._expected() > _PATIENCE:
            if LOGGER.handlers or not _draws_bars():
                self._tell()
            else:
                self._show()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)

    def advance(self, work: float) -> None:
        """So much more of the total is finished."""
        self.advance_to(self._done + work)

    def _expected(self) -> float:
        """Seconds the whole will take at the pace so far."""
        worked = self._done - self._start
        if worked <= 0:
            return 0.0
        return (time.monotonic() - self._began) * (self._total - self._start) / worked

    def _tell(self) -> None:
        """A line, unless the last one is too recent."""
        now = time.monotonic()
        passed = now - self._began
        # A log of a long run stays short: the longer it lasts, the fewer lines an hour.
        if self._last_line is not None and now - self._last_line < min(max(passed / 10, _SHORTEST), _LONGEST):
            return
        self._last_line = now
        share, left = self._done / self._total, max(0.0, self._expected() - passed)
        self._line(
            f"{self._title}: {share:.0%}, {_clock(passed)} passed, about {_clock(left)} left",
            {"share": round(share, 4), "seconds": round(passed), "seconds_left": round(left)},
        )

    def _line(self, text: str, values: dict[str, float]) -> None:
        write_line(text, {"what": self._title, **values})

    def _show(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.add_task(self._title, total=self._total)
        self._bar.update(self._bar.task_ids[0], completed=self._start)
        self._bar.start()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._last_line is not None and kind is None:
            passed = time.monotonic() - self._began
            self._line(f"{self._title}: done in {_clock(passed)}", {"share": 1.0, "seconds": round(passed)})


def write_line(text: str, values: Mapping[str, object]) -> None:
    """Write a line to the logger's handlers, where there are any, and else to standard error.

    Args:
        values: what the line says, for handlers that write records.
    """
    if LOGGER.hasHandlers():
        LOGGER.info(text, extra={"values": dict(values)})
    else:
        print(text, file=sys.stderr, flush=True)


def _draws_bars() -> bool:
    """Whether standard error is a terminal that moves its cursor; editors' shells are terminals that do not."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))

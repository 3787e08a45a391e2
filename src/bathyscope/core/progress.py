"""How far long work is, on standard error: a bar at a terminal, and a line now and then in a log."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

LOGGER: Final = logging.getLogger("bathyscope")
"""Lines go to its handlers, where it or the program has any, and else to standard error."""
_PATIENCE = 5.0
_SHORTEST, _LONGEST = 10.0, 600.0
"""Seconds between two lines: a tenth of what has passed, within these."""
_NUMBERS_WIDTH, _BAR_WIDTH = 38, 40
"""Columns of a terminal for the share and the times with the blanks between them, and at most for the bar itself."""


@contextmanager
def announce_if_long(text: str, quiet: bool = False) -> Iterator[None]:
    """Say on standard error what goes on, where it takes longer than five seconds; for work that has no measure.

    Args:
        text: such as ``Drawing the page.``
    """
    timer = _start_timer(lambda: write_line(text, {}), quiet)
    try:
        yield
    finally:
        timer.cancel()


def _start_timer(action: Callable[[], None], quiet: bool) -> threading.Timer:
    """Start a timer that acts after the five seconds, unless it is cancelled before, or quiet."""
    timer = threading.Timer(_PATIENCE, action)
    # The program may end at any time without waiting for it.
    timer.daemon = True
    if not quiet:
        timer.start()
    return timer


class ProgressBar:
    """Shows itself once the work turns out to take longer than five seconds.

    Where five seconds pass before anything is finished, it says what has begun.

    ``total`` is in any unit, ``done`` what was done of it in an earlier, interrupted run.
    """

    def __init__(self, title: str, total: float, done: float = 0.0, quiet: bool = False) -> None:
        self._title = title
        self._total = total
        self._start = done
        self._done = done
        self._quiet = quiet
        self._began = time.monotonic()
        self._estimate: tuple[float, float] | None = None
        """When somebody who knows more than shares estimated how many seconds were left, and how many."""
        self._bar: Progress | None = None
        self._last_line: float | None = None
        """When the last line was written."""
        # The first part of the work may take minutes, so a timer looks whether anything was shown by then.
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    def advance_to(self, done: float, seconds_left: float | None = None) -> None:
        """``done`` of the total is finished.

        Args:
            done: in the bar's unit.
            seconds_left: until all of it is, by who knows that parts differ in pace; None = as fast as it was so far.
        """
        self._done = done
        self._estimate = None if seconds_left is None else (time.monotonic(), seconds_left)
        if self._quiet:
            return
        with self._lock:
            if self._bar is None and self._expected() > _PATIENCE:
                if LOGGER.handlers or not _draws_bars():
                    self._tell()
                else:
                    self._show()
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done)

    def _announce(self) -> None:
        """Show that the work has begun, where nothing of it is finished yet."""
        with self._lock:
            if self._bar is not None or self._last_line is not None or self._done > self._start:
                return
            if LOGGER.handlers or not _draws_bars():
                self._last_line = time.monotonic()
                self._line(f"{self._title}: begun", {"share": round(self._done / self._total, 4)})
            else:
                self._show()

    def advance(self, work: float) -> None:
        """So much more of the total is finished."""
        self.advance_to(self._done + work)

    def _expected(self) -> float:
        """Seconds the whole will take."""
        if self._estimate is not None:
            now, left = self._estimate
            return now - self._began + left
        worked = self._done - self._start
        if worked <= 0:
            return 0.0
        return (time.monotonic() - self._began) * (self._total - self._start) / worked

    @property
    def seconds_left(self) -> float | None:
        """Seconds to go, at the pace of all that was done unless somebody knows better; None before anything is."""
        expected = self._expected()
        return max(0.0, expected - (time.monotonic() - self._began)) if self._done > self._start else None

    def _tell(self) -> None:
        """A line, unless the last one is too recent."""
        now = time.monotonic()
        passed = now - self._began
        # A log of a long run stays short: the longer it lasts, the fewer lines an hour.
        if self._last_line is not None and now - self._last_line < min(max(passed / 10, _SHORTEST), _LONGEST):
            return
        self._last_line = now
        share, left = self._done / self._total, self.seconds_left or 0.0
        self._line(
            f"{self._title}: {share:.0%}, {_clock(passed)} passed, about {_clock(left)} left",
            {"share": round(share, 4), "seconds": round(passed), "seconds_left": round(left)},
        )

    def _line(self, text: str, values: dict[str, float]) -> None:
        write_line(text, {"what": self._title, **values})

    def _show(self) -> None:
        console = Console(stderr=True)
        # Numbers have room before the title and the bar: where these are too long, rich would cut all columns alike.
        room = max(console.width - _NUMBERS_WIDTH, 2)
        title = Text(self._title)
        title.truncate(max(room - _BAR_WIDTH // 4, 1), overflow="ellipsis")
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(max(1, min(_BAR_WIDTH, room - title.cell_len))),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("passed,"),
            _TimeLeft(self),
            TextColumn("left"),
            console=console,
            transient=True,
        )
        self._bar.add_task(title.plain, total=self._total)
        self._bar.update(self._bar.task_ids[0], completed=self._start)
        self._bar.start()

    def __enter__(self) -> ProgressBar:
        self._timer = _start_timer(self._announce, self._quiet)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
        if self._last_line is not None and kind is None:
            passed = time.monotonic() - self._began
            self._line(f"{self._title}: done in {_clock(passed)}", {"share": 1.0, "seconds": round(passed)})


class _TimeLeft(ProgressColumn):
    """The time that lines in a log say too; rich's own follows the last half minute alone."""

    def __init__(self, bar: ProgressBar) -> None:
        super().__init__()
        self._bar = bar

    def render(self, task: Task) -> Text:
        left = self._bar.seconds_left
        return Text("-:--:--" if left is None else _clock(left), style="progress.remaining")


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

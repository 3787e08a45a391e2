"""A progress bar on standard error with the time left, for work longer than a few seconds."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_PATIENCE = 5.0


class ProgressBar:
    """Shows itself once the work turns out to take longer than five seconds.

    Args:
        title: what is being done.
        total: amount of work, in any unit.
        done: amount that was done in an earlier, interrupted run.
        quiet: never show anything.
    """

    def __init__(self, title: str, total: float, done: float = 0.0, quiet: bool = False) -> None:
        self._title, self._total, self._start, self._done = title, total, done, done
        self._quiet = quiet
        self._began = time.monotonic()
        self._bar: Progress | None = None

    def advance_to(self, done: float) -> None:
        """``done`` of the total is finished."""
        self._done = done
        if self._quiet:
            return
        if self._bar is None and self._expected() > _PATIENCE:
            self._show()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done)

    def _expected(self) -> float:
        """Seconds the whole will take at the pace so far."""
        worked = self._done - self._start
        if worked <= 0:
            return 0.0
        return (time.monotonic() - self._began) * (self._total - self._start) / worked

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

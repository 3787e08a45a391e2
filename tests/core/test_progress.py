"""A bar appears once the whole is expected to take longer than five seconds, lines in a log, and nothing when quiet."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.progress import TextColumn

from bathyscope.core import progress
from bathyscope.core.progress import ProgressBar


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("seconds", "done", "shown"), [(1.0, 50.0, False), (3.0, 50.0, True), (1.0, 10.0, True), (9.0, 0.0, False)]
)
def test_it_shows_itself_where_it_is_worth_it(clock: Clock, seconds: float, done: float, shown: bool) -> None:
    with ProgressBar("surveying", total=100) as bar:
        clock.now += seconds
        bar.advance_to(done)
        assert (bar._bar is not None) == shown
        if bar._bar is not None:
            assert bar._bar.tasks[0].completed == done


@pytest.mark.usefixtures("terminal")
def test_work_of_an_earlier_run_is_not_counted_as_fast(clock: Clock) -> None:
    """Ten of the ten per cent left took two seconds: nothing to show; one of fifty would take long."""
    with ProgressBar("surveying", total=100, done=90) as bar:
        clock.now += 2
        bar.advance_to(100)
        assert bar._bar is None
    with ProgressBar("surveying", total=100, done=50) as bar:
        clock.now += 2
        bar.advance_to(51)
        assert bar._bar is not None
        assert bar._bar.tasks[0].completed == 51


@pytest.mark.usefixtures("terminal")
def test_a_terminal_that_does_not_move_its_cursor_has_lines(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_handlers(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with ProgressBar("surveying", total=100) as bar:
        clock.now += 10
        bar.advance_to(50)
        assert bar._bar is None
    assert capsys.readouterr().err.startswith("surveying: 50%, 0:00:10 passed")


def test_quiet_is_quiet(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("surveying", total=100, quiet=True) as bar:
        clock.now += 1000
        bar.advance_to(1)
    assert capsys.readouterr() == ("", "")


def without_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has not set logging up. Called by a test itself, as the test runner has when one begins."""
    monkeypatch.setattr(progress.LOGGER, "propagate", False)


def test_a_log_has_a_line_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten seconds, or a tenth of what has passed."""
    without_handlers(monkeypatch)
    with ProgressBar("surveying", total=1000) as bar:
        for second in range(1, 1001):
            clock.now += 1
            bar.advance_to(second)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "surveying: 0%, 0:00:01 passed, about 0:16:39 left"
    assert lines[1] == "surveying: 1%, 0:00:11 passed, about 0:16:29 left"
    assert lines[-1] == "surveying: done in 0:16:40"
    # nine of ten seconds each up to 100 s, then each a tenth later than the one before
    assert 25 < len(lines) < 45


def test_short_work_and_interrupted_work_say_no_more_than_they_did(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_handlers(monkeypatch)

    def interrupted() -> None:
        with ProgressBar("surveying", total=100) as bar:
            clock.now += 2
            bar.advance_to(10)
            raise KeyboardInterrupt

    with ProgressBar("surveying", total=10) as bar:
        clock.now += 1
        bar.advance_to(10)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capsys.readouterr().err.splitlines() == ["surveying: 10%, 0:00:02 passed, about 0:00:18 left"]


def test_a_program_with_logging_gets_records(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bathyscope"), ProgressBar("surveying", total=100) as bar:
        clock.now += 10
        bar.advance_to(25)
    assert [record.name for record in caplog.records] == ["bathyscope"] * 2
    assert caplog.records[0].values == {"what": "surveying", "share": 0.25, "seconds": 10, "seconds_left": 30}


def test_work_whose_first_part_takes_long_says_that_it_has_begun(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer acts here when the test says so, and only where it was started and not cancelled."""
    without_handlers(monkeypatch)
    timers = stand_in_timers(monkeypatch)
    with ProgressBar("surveying", total=100) as bar:
        timers[-1].act()
        assert capsys.readouterr().err == "surveying: begun\n"
        clock.now += 30
        bar.advance_to(50)
        assert capsys.readouterr().err.startswith("surveying: 50%, 0:00:30 passed")
    assert timers[-1].cancelled
    assert capsys.readouterr().err == "surveying: done in 0:00:30\n"
    with ProgressBar("surveying", total=100) as bar:
        bar.advance_to(1)
        timers[-1].act()
    with ProgressBar("surveying", total=100, quiet=True):
        assert not timers[-1].started
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("terminal")
def test_a_bar_labels_its_times_and_shows_itself_before_anything_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = stand_in_timers(monkeypatch)
    with ProgressBar("surveying", total=100) as bar:
        timers[-1].act()
        assert bar._bar is not None
        labels = [column.text_format for column in bar._bar.columns if isinstance(column, TextColumn)]
        assert labels[-2:] == ["passed,", "left"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("title", ["surveying", "choosing 3 of 30 blocks of [bold]a model[/bold] of a long name " * 2])
def test_a_long_title_leaves_room_for_the_numbers(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    timers = stand_in_timers(monkeypatch)
    with ProgressBar(title, total=100) as bar:
        timers[-1].act()
        assert bar._bar is not None
        page = io.StringIO()
        Console(file=page, width=80).print(bar._bar.make_tasks_table(bar._bar.tasks))
    (line,) = page.getvalue().splitlines()
    assert cell_len(line) <= 80
    assert re.search(r"  0 % 0:00:0\d passed, -:--:-- left$", line.rstrip())
    assert line.startswith(title[:30])


@pytest.mark.parametrize("quiet", [False, True])
def test_long_work_without_a_measure_says_what_goes_on(
    quiet: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_handlers(monkeypatch)
    timers = stand_in_timers(monkeypatch)
    with progress.announce_if_long("Drawing the page.", quiet):
        if timers[-1].started:
            timers[-1].act()
    assert timers[-1].cancelled
    assert timers[-1].seconds == 5.0
    assert capsys.readouterr().err == ("" if quiet else "Drawing the page.\n")


class StandInTimer:
    """Acts when it is told to, whatever the clock says."""

    def __init__(self, seconds: float, action: Callable[[], None]) -> None:
        self.seconds, self.act = seconds, action
        self.started = self.cancelled = False

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True


def stand_in_timers(monkeypatch: pytest.MonkeyPatch) -> list[StandInTimer]:
    timers: list[StandInTimer] = []

    def make(seconds: float, action: Callable[[], None]) -> StandInTimer:
        timers.append(StandInTimer(seconds, action))
        return timers[-1]

    monkeypatch.setattr(progress.threading, "Timer", make)
    return timers

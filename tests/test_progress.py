"""A bar appears once the whole is expected to take longer than five seconds, and never when quiet."""

from __future__ import annotations

import pytest

from bathyscope import progress
from bathyscope.progress import ProgressBar


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


def test_quiet_is_quiet(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("surveying", total=100, quiet=True) as bar:
        clock.now += 1000
        bar.advance_to(1)
    assert capsys.readouterr() == ("", "")

"""Signals during work and during its clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from bathyscope.core.interrupts import (
    ended_as_interrupted,
    ending_in_order,
    noted,
    uninterrupted,
    wait_for_uninterrupted,
)


def nothing() -> None:
    pass


@pytest.fixture(autouse=True)
def python_handlers() -> Iterator[None]:
    """As in a fresh interpreter, whatever the runner of the tests has set."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for one, was in before.items():
        signal.signal(one, was)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_is_an_interruption(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), ending_in_order(nothing):
        signal.raise_signal(number)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_later_signals_do_not_disturb_the_answer_to_the_first() -> None:
    happened: list[str] = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            happened.append("kept")

    with pytest.raises(KeyboardInterrupt), ending_in_order(lambda: happened.append("heard")):
        work()
    assert happened == ["heard", "heard", "kept"]


def test_signals_wait_for_the_end_of_a_step_and_are_then_answered() -> None:
    happened: list[str] = []

    def work() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            happened.append("kept")
        happened.append("gone on")

    with pytest.raises(KeyboardInterrupt), ending_in_order(nothing):
        work()
    assert happened == ["kept"]


def test_a_signal_is_answered_after_a_step_that_fails() -> None:
    @uninterrupted()
    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        raise OSError("disk full")

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert isinstance(caught.value.__context__, OSError)


def test_ignored_signals_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ending_in_order(nothing), uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_leave_handlers_alone() -> None:
    seen: list[object] = []

    def work() -> None:
        with ending_in_order(nothing), uninterrupted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_the_end_of_a_program_is_an_interruption_of_what_it_called() -> None:
    with pytest.raises(KeyboardInterrupt), ended_as_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_programs_own_answer_to_its_end_is_left_to_it() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    with ended_as_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


def test_other_threads_change_no_handler() -> None:
    found: list[object] = []

    def work() -> None:
        with ended_as_interrupted(), uninterrupted():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


def test_a_signal_is_noted_and_a_second_one_ends() -> None:
    with noted() as heard:
        signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_who_ends_the_process_waits_for_what_is_written() -> None:
    """In the order of events, whatever they take: begun, another thread waits, written, the thread goes on."""
    events: list[str] = []
    waits = threading.Event()

    def end() -> None:
        waits.set()
        wait_for_uninterrupted(600)
        events.append("ended")

    with uninterrupted():
        thread = threading.Thread(target=end)
        thread.start()
        waits.wait(600)
        # the thread cannot go on while this one is inside, so that this comes first in every case
        thread.join(0.2)
        events.append("written")
    thread.join(600)
    assert events == ["written", "ended"]


def test_nobody_is_waited_for_where_nothing_is_written() -> None:
    with pytest.raises(ZeroDivisionError), uninterrupted():
        raise ZeroDivisionError
    wait_for_uninterrupted(600)

"""A program of somebody else ends in time, and what ended in time is not disturbed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bathyscope.core.deadline import deadline


def _endless() -> None:
    while True:
        try:
            sum(range(1000))
        except Exception:  # as templates do, whose errors are values
            continue


def test_what_never_ends_is_stopped() -> None:
    with pytest.raises(TimeoutError, match=r"not ready after 0\.05 s"), deadline(0.05):
        _endless()


def test_it_holds_in_any_thread() -> None:
    def run() -> str:
        try:
            with deadline(0.05):
                _endless()
        except TimeoutError:
            return threading.current_thread().name
        return "never"

    with ThreadPoolExecutor(1, "worker") as pool:
        assert pool.submit(run).result() == "worker_0"


def test_what_ends_in_time_gives_its_value_and_its_own_errors() -> None:
    with deadline(3600):
        value = 1 + 1
    assert value == 2
    with pytest.raises(ZeroDivisionError), deadline(3600):
        _ = 1 / 0
    assert not [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, threading.Timer) and thread.is_alive() and not thread.finished.is_set()
    ]

"""Ctrl-C and SIGTERM, which batch schedulers send: both end work in order, and neither is lost or answered twice."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from bathyscope.core.interrupted_imports import interrupting

INTERRUPTED: Final = 130
"""Exit code of a program that was ended so, as a shell gives it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_UNINTERRUPTED: Final = threading.Condition(threading.RLock())
_INSIDE: Final[list[int]] = []
"""A thread for each block of ``uninterrupted`` that has not ended."""


@contextmanager
def ending_in_order(further: Callable[[], None]) -> Iterator[None]:
    """Inside, the first of either signal raises KeyboardInterrupt; while that is answered, later ones change nothing.

    An import that is under way cannot swallow it. Signals that the process was started to ignore stay ignored. Outside
    of the main thread, which alone hears signals, this does nothing.

    Args:
        further: called for each later signal, to say that the first was heard.
    """
    heard = False

    def answer(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            further()
            return
        heard = True
        interrupt(frame)

    with interrupting() as interrupt, _handled(answer):
        yield


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt as Ctrl-C does, unless something else answers it already.

    For work that is called from a user's own program: what is under way is let go in order before the program ends.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    with interrupting() as interrupt:
        signal.signal(signal.SIGTERM, lambda number, frame: interrupt(frame))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def noted() -> Iterator[list[int]]:
    """Inside, the first signal is put on the list that is given, and a second one raises KeyboardInterrupt.

    For work that ends by itself at its next good moment, when it finds a signal there.
    """
    heard: list[int] = []

    def answer(number: int, frame: FrameType | None) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    with _handled(answer):
        yield heard


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside, signals wait; the first of them is answered, in the way it was before, when the block has ended.

    For the few steps that must happen wholly or not at all, such as keeping a result that took an hour.
    """
    waiting: list[int] = []
    try:
        with _at_work(), _handled(lambda number, frame: waiting.append(number)):
            yield
    finally:
        if waiting:
            signal.raise_signal(waiting[0])


def wait_for_uninterrupted(seconds: float) -> None:
    """Wait until no thread is inside of ``uninterrupted``, for whoever is about to end the process at once.

    Args:
        seconds: that it waits at most.
    """
    with _UNINTERRUPTED:
        _UNINTERRUPTED.wait_for(lambda: not _INSIDE, seconds)


@contextmanager
def _at_work() -> Iterator[None]:
    with _UNINTERRUPTED:
        _INSIDE.append(threading.get_ident())
    try:
        yield
    finally:
        with _UNINTERRUPTED:
            _INSIDE.pop()
            _UNINTERRUPTED.notify_all()


@contextmanager
def _handled(answer: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        # None: a handler that was not set from Python and could not be put back
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        before = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in before:
            signal.signal(number, answer)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

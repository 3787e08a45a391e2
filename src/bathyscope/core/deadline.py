"""A limit for programs of others, such as chat templates, that may never end."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OverdueError(BaseException):
    """Raised inside of what takes too long; no program that is stopped by it can catch it as an ordinary error."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Stop the Python code inside of the block after a time, in whichever thread it runs.

    Args:
        seconds: that it may take.

    Raises:
        TimeoutError: it took longer.
    """
    thread = threading.get_ident()
    lock, is_over = threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not is_over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OverdueError))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except OverdueError:
        raise TimeoutError(f"it was not ready after {seconds:g} s") from None
    finally:
        with lock:
            is_over = True
        timer.cancel()

"""Programs of others in a process of their own, which can be ended whatever it is doing.

A limit of time inside of a process stops Python between two steps, and one step in C, such as a comparison of lists of
lists of lists, may take for ever: nothing in that process runs meanwhile, Ctrl-C included. Only from outside can it be
ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final

_PARALLELISM: Final = "TOKENIZERS_PARALLELISM"


def can_be_apart() -> bool:
    """Return whether this system can copy a process with threads; macOS and Windows cannot."""
    return sys.platform == "linux"


class Apart:
    """A function in a process of its own, a copy of this one, which begins at the first call and serves them all.

    Args:
        work: takes and returns plain JSON values, and raises nothing but TimeoutError. It sees the program as it is at
            the first call, and what it changes is not seen here.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def __call__(self, request: Any, seconds: float) -> Any:
        """Return what the function returns.

        Raises:
            TimeoutError: it took longer, or says so itself; its process was ended, and the next call begins another.
            ChildProcessError: its process has ended by itself, as for lack of memory.
            OSError: the process cannot be copied.
        """
        with self._lock:
            if self._child is None or self._child.owner != os.getpid():
                self._child = _Child(self._work)
                # also when this program ends
                weakref.finalize(self, self._child.end)
            try:
                return self._child.answer(request, seconds)
            except BaseException:
                # an answer that comes later would be taken for the next one
                self._child.end()
                self._child = None
                raise


class _Child:
    """A copy of this process that answers requests."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.owner = os.getpid()
        self._ours, theirs = Pipe()
        try:
            with _quiet():
                self._number = os.fork()
        except BaseException:
            self._ours.close()
            theirs.close()
            raise
        if self._number == 0:
            self._ours.close()
            _serve(theirs, work)
        theirs.close()

    def answer(self, request: Any, seconds: float) -> Any:
        try:
            self._ours.send_bytes(json.dumps(request).encode())
            answer = json.loads(self._ours.recv_bytes()) if self._ours.poll(seconds) else {}
        except (EOFError, OSError) as error:
            raise ChildProcessError("its process has ended") from error
        if not answer:
            raise TimeoutError(f"it was not ready after {seconds:g} s")
        return answer["answer"]

    def end(self) -> None:
        """End the process; a second call, and one in a copy of this process, does nothing."""
        if self.owner != os.getpid() or self._ours.closed:
            return
        self._ours.close()
        # whoever collects all ended processes has collected this one too
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._number, signal.SIGKILL)
            os.waitpid(self._number, 0)


def _serve(requests: Connection, work: Callable[[Any], Any]) -> None:
    """Answer requests until nobody is there to ask; never returns into the program that was copied."""
    status = 1
    try:
        # Ctrl-C in a terminal reaches every process of it: the one that asked ends this one
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while request := requests.recv_bytes():
            try:
                answer = {"answer": work(json.loads(request))}
            except TimeoutError:
                answer = {}
            requests.send_bytes(json.dumps(answer).encode())
        status = 0
    except EOFError:
        status = 0
    finally:
        # without what the copied program would do at its end
        os._exit(status)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Python and the tokenizers' library from warning of threads that the copy does not have, nor needs."""
    before = os.environ.get(_PARALLELISM)
    os.environ.setdefault(_PARALLELISM, "true")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if before is None:
            os.environ.pop(_PARALLELISM, None)

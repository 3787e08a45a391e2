"""A signal that comes while a library is imported, which takes seconds: it ends the import, whatever the library does.

Code that runs inside of an import may swallow a KeyboardInterrupt (a bare ``except``, an extension module that clears
errors) or turn it into an error of its own. A program that goes on with half a library has lost its user's wish, and
fails later for a reason that is not the true one. So the interruption is raised again where the next module is looked
for, and at last where the outermost import ends. Compiled code may even abort the process when an import that it calls
raises; where nothing is lost by it, an end without any error is therefore the better one (``ended_at_once``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import FrameType
from typing import Any, Final, NoReturn

_MACHINERY: Final = "<frozen importlib._bootstrap>"
"""The file of the frames that import."""
_AT_ONCE: Final[list[Callable[[], None]]] = []
"""What ends the process, while it has nothing to lose."""


@contextmanager
def ended_at_once(end: Callable[[], None]) -> Iterator[None]:
    """Inside, nothing is raised in an import that is interrupted: the process is ended.

    Args:
        end: ends the process; called in the handler of a signal.
    """
    _AT_ONCE.append(end)
    try:
        yield
    finally:
        _AT_ONCE.remove(end)


def is_importing() -> bool:
    """Whether the main thread imports."""
    return bool(_importing(sys._current_frames().get(threading.main_thread().ident or 0)))


@contextmanager
def interrupting() -> Iterator[Callable[[FrameType | None], NoReturn]]:
    """Inside, give handlers of signals what raises KeyboardInterrupt, so that no import which is under way swallows it.

    It is called in the main thread with the innermost frame, as a handler is given it. Imports that began outside may
    go on: the work itself may be imported.
    """
    outside = len(_importing(sys._getframe()))
    tracer = sys.gettrace()
    insistences: list[_Insistence] = []

    def interrupt(frame: FrameType | None) -> NoReturn:
        frames = _importing(frame)
        inside = frames[: len(frames) - outside]
        importer = inside[-1].f_back if inside else None
        if inside and _AT_ONCE:
            _AT_ONCE[-1]()
        if importer is not None and not any(insistence in sys.meta_path for insistence in insistences):
            insistences.append(_Insistence(importer))
            insistences[-1].begin()
        raise KeyboardInterrupt

    try:
        yield interrupt
    finally:
        # an error that a tracer raises ends all tracing, that of a debugger too
        if insistences:
            sys.settrace(tracer)


def _importing(frame: FrameType | None) -> list[FrameType]:
    frames = []
    while frame is not None:
        if frame.f_code.co_filename == _MACHINERY:
            frames.append(frame)
        frame = frame.f_back
    return frames


class _Insistence(MetaPathFinder):
    """Raises KeyboardInterrupt until the import that a frame has begun is over.

    Args:
        importer: the frame that holds the outermost ``import``.
    """

    def __init__(self, importer: FrameType) -> None:
        self._importer = importer
        self._tracer = sys.gettrace()

    def begin(self) -> None:
        """Let no further module be found by the main thread, and watch the importer."""
        sys.meta_path.insert(0, self)
        # other frames are traced as before; the importer is told of what happens in it, as by a debugger
        sys.settrace(self._tracer or _ignore)
        self._importer.f_trace = self._watch
        self._importer.f_trace_opcodes = True

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise in the main thread; let others import."""
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def _watch(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take the first event in the importer: its import has failed, or has come to its end."""
        sys.meta_path.remove(self)
        frame.f_trace = None
        frame.f_trace_opcodes = False
        sys.settrace(self._tracer)
        if event == "exception" and issubclass(argument[0], KeyboardInterrupt):
            return
        raise KeyboardInterrupt from (argument[1] if event == "exception" else None)


def _ignore(frame: FrameType, event: str, argument: Any) -> None:
    """Trace no frame."""

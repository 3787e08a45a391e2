"""CUDA's streams without CUDA: what a stream is told runs as late as the rules allow, so that a missing wait shows.

    with Streams() as cuda:
        ...                       # code that uses torch.cuda's streams, events, pinned memory and copies
        cuda.run(lambda: ...)     # work of the device, behind what it has been told so far
        cuda.finish()

Values are on the CPU. A copy to the device reads its source when it runs, as a real one does, and gives room that holds
no number before that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

DEVICE = torch.device("cuda:0")


class Event:
    """A point in a stream's work."""

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.done = True

    def record(self, stream: Stream) -> None:
        """The point is where the stream's work ends now."""
        self.stream, self.done = stream, False
        stream.work.append(self._come)

    def synchronize(self) -> None:
        """Python waits for it."""
        while not self.done:
            assert self.stream is not None
            self.stream.step()

    def _come(self) -> None:
        self.done = True


class Stream:
    """Work in its order."""

    def __init__(self, device: Any = None) -> None:
        self.work: deque[Callable[[], None]] = deque()

    def wait_event(self, event: Event) -> None:
        """What comes behind this runs after the event."""
        self.work.append(event.synchronize)

    def step(self) -> None:
        """Runs one piece of work."""
        self.work.popleft()()


class Streams:
    """While it is entered, torch.cuda has these streams."""

    def __init__(self) -> None:
        self.usual = Stream()
        self._thread = threading.local()
        self._patch = pytest.MonkeyPatch()
        self._made: list[StorageWeakRef] = []
        self._recorded: set[int] = set()

    def __enter__(self) -> Streams:
        to, empty = Tensor.to, torch.empty

        def moved(tensor: Tensor, *given: Any, non_blocking: bool = False, **named: Any) -> Tensor:
            if not given or given[0] != DEVICE:
                return to(tensor, *given, **named)
            target = torch.full_like(tensor, torch.nan)
            self._made.append(StorageWeakRef(target.untyped_storage()))
            self._current.work.append(lambda: (target.copy_(tensor), None)[1])
            if not non_blocking:
                self.finish()
            return target

        def record(tensor: Tensor, stream: Stream) -> None:
            assert stream is self.usual
            self._recorded.add(tensor.untyped_storage().data_ptr())

        patch = self._patch.setattr
        patch(torch.cuda, "Stream", Stream)
        patch(torch.cuda, "Event", Event)
        patch(torch.cuda, "stream", self._on)
        patch(torch.cuda, "current_stream", lambda device=None: self._current)
        patch(torch, "empty", lambda *sizes, pin_memory=False, **named: empty(*sizes, **named))
        patch(Tensor, "to", moved)
        patch(Tensor, "record_stream", record)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._patch.undo()

    @property
    def _current(self) -> Stream:
        return getattr(self._thread, "stream", self.usual)

    @property
    def living(self) -> int:
        """Tensors on the device whose memory cannot be used again: somebody holds them, or work on them is to come."""
        return sum(not one.expired() for one in self._made)

    def run(self, work: Callable[[Tensor], None], tensor: Tensor) -> None:
        """Work on a tensor that was brought, which runs when the device comes to it."""
        assert tensor.untyped_storage().data_ptr() in self._recorded, "its memory may be used again too early"
        self.usual.work.append(lambda: work(tensor))

    def finish(self) -> None:
        """The device does all that it was told."""
        while self.usual.work:
            self.usual.step()

    @contextmanager
    def _on(self, stream: Stream) -> Iterator[None]:
        before, self._thread.stream = self._current, stream
        try:
            yield
        finally:
            self._thread.stream = before

"""One thread at a time: a model is measured by exchanging its blocks' functions, so that others have to wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_GUARD = threading.Lock()


@contextmanager
def alone(hf: nn.Module) -> Iterator[None]:
    """Inside, no other thread measures this model; threads that come later wait their turn."""
    with _GUARD:
        lock = _LOCKS.setdefault(hf, threading.RLock())
    with lock:
        yield

"""One thread at a time: a model is measured by exchanging its blocks' functions, so that others have to wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

from bathyscope.model.admission import without_adapter

_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_GUARD = threading.Lock()


@contextmanager
def alone(model: object) -> Iterator[None]:
    """Inside, no other thread measures this model; threads that come later wait their turn.

    Args:
        model: what ``load`` returns or takes. A name is a model that nobody else has.
    """
    hf = getattr(model, "hf", model)
    if not isinstance(hf, nn.Module):
        yield
        return
    with _GUARD:
        lock = _LOCKS.setdefault(without_adapter(hf), threading.RLock())
    with lock:
        yield

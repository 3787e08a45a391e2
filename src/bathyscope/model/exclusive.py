"""One thread at a time: a model is measured by exchanging its blocks' functions, so that others have to wait."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

from torch import nn

from bathyscope.model.admission import without_adapter

_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_GUARD = threading.Lock()


@contextmanager
def alone(*models: object) -> Iterator[None]:
    """Inside, no other thread measures these models; threads that come later wait their turn.

    Args:
        models: what ``load`` returns or takes. A name is a model that nobody else has.
    """
    given = (getattr(model, "hf", model) for model in models)
    inner = {without_adapter(hf) for hf in given if isinstance(hf, nn.Module)}
    with _GUARD:
        # in one order for all threads: two that wait for each other's model would wait for ever
        locks = [_LOCKS.setdefault(hf, threading.RLock()) for hf in sorted(inner, key=id)]
    with ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        yield

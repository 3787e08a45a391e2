"""One thread at a time: a model is measured by exchanging its blocks' functions, so that others have to wait."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

from bathyscope.model.admission import without_adapter

_P = ParamSpec("_P")
_R = TypeVar("_R")
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


def measuring(*names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """The function has the models that it is given under these names for itself while it runs."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given = signature.bind(*args, **kwargs).arguments
            with alone(*(given[name] for name in names)):
                return function(*args, **kwargs)

        return run

    return decorate

"""Modules that answer otherwise than their own code, without a hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch import nn


@contextmanager
def answering(module: nn.Module, change: Callable[[tuple[Any, ...], Any], Any]) -> Iterator[None]:
    """Inside, the module answers with ``change(args, output)`` in the place of its own output."""
    own = module.forward

    @wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return change(args, own(*args, **kwargs))

    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]

"""Modules that answer otherwise than their own code, without a hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from torch import nn

from bathyscope.model import Model


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


@contextmanager
def counted_tokens(model: Model) -> Iterator[list[int]]:
    """Inside, the tokens of every call of a block, one number a call."""
    calls: list[int] = []

    def note(args: tuple[Any, ...], output: Any) -> Any:
        calls.append(args[0].shape[0] * args[0].shape[1])
        return output

    with ExitStack() as stack:
        for block in model.anatomy.blocks:
            stack.enter_context(answering(block, note))
        yield calls

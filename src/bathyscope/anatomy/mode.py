"""The state a model is measured in: evaluation mode, so that dropout never enters a result, and its own order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

from bathyscope.errors import ModelError

_RUNNING: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """All modules are in evaluation mode inside; afterwards each is as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def running(model: nn.Module, schedule: str) -> Iterator[None]:
    """The model's own forward runs another order of its blocks inside; ``schedule`` says which."""
    _RUNNING[model] = schedule
    try:
        yield
    finally:
        del _RUNNING[model]


def runs_schedule(model: nn.Module) -> bool:
    """Whether the model's own forward runs another order of its blocks at the moment."""
    return model in _RUNNING


def require_own_order(model: nn.Module) -> None:
    """Refuses to measure a model while its forward runs another order of its blocks.

    Raises:
        ModelError: it does.
    """
    if model in _RUNNING:
        raise ModelError(
            f"This model runs a schedule at the moment ({_RUNNING[model]}); survey the model outside of scheduled()."
        )

"""Adapters of PEFT on or off: for a whole model, or for the block that stands in one slot of a history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from bathyscope.errors import ModelError, warn

_SWITCH = "_disable_adapters"
"""What a layer with adapters looks at in its forward. Its own methods for switching also change what is trained."""


def is_adapted(module: nn.Module) -> bool:
    """Return whether a module is a layer with adapters."""
    return hasattr(module, _SWITCH)


def require_adapters(model: nn.Module) -> None:
    """Refuse a model whose adapters cannot be switched.

    Raises:
        ModelError: no adapters, or adapters that were merged into the weights.
    """
    layers = [module for module in model.modules() if is_adapted(module)]
    if not layers:
        raise ModelError("This model has no adapters to switch off. Give two models, such as the base and its copy.")
    configs: Any = getattr(model, "peft_config", None)
    biased = [name for name, config in (configs or {}).items() if getattr(config, "bias", "none") not in ("none", None)]
    if biased:
        warn(
            f"The adapter {biased[0]!r} was trained with biases of the model (bias={configs[biased[0]].bias!r}), which "
            "switching it off does not undo. Give the base model as well to compare with it."
        )
    if any(getattr(layer, "merged", False) for layer in layers):
        raise ModelError(
            "The adapters of this model are merged into its weights and cannot be switched off. Unmerge them "
            "(unmerge_adapter()), or give the base model as well."
        )


@contextmanager
def adapters(module: nn.Module, *, on: bool) -> Iterator[None]:
    """Switch all adapters in a module on or off inside."""
    layers = [layer for layer in module.modules() if is_adapted(layer)]
    before = [getattr(layer, _SWITCH) for layer in layers]
    try:
        for layer in layers:
            setattr(layer, _SWITCH, not on)
        yield
    finally:
        for layer, value in zip(layers, before):
            setattr(layer, _SWITCH, value)


class Adapted(nn.Module):
    """A block that runs with its adapters on or off, whatever they are elsewhere.

    Args:
        block: with adapters in it, or without.
        on: how they are when it runs.
    """

    def __init__(self, block: nn.Module, *, on: bool) -> None:
        super().__init__()
        # The block stays the model's: as a registered child it would be one of two, and hooks are read by path.
        self.__dict__["block"] = block
        self.on = on

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        block: nn.Module = self.__dict__["block"]
        with adapters(block, on=self.on):
            return block(*args, **kwargs)

"""Adapters of PEFT on or off: for a whole model, or for the block that is in one slot of a history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from bathyscope.errors import ModelError, warn

_SWITCH = "_disable_adapters"
"""What a layer with adapters looks at in its forward. Its own methods for switching also change what is trained."""


def is_adapted(module: nn.Module) -> bool:
    """Return whether a module is a layer with adapters."""
    return hasattr(module, _SWITCH)


def acting_adapters(layer: nn.Module, *, on: bool | None = None) -> tuple[str, ...]:
    """Return the adapters that a layer computes with, in their order: those that are active and not merged.

    Args:
        on: whether adapters are taken to be switched on; None = as they are now.
    """
    is_on = not getattr(layer, _SWITCH) if on is None else on
    if not is_on:
        return ()
    present = {name for kind in adapter_kinds(layer) for name in getattr(layer, kind)}
    merged = getattr(layer, "merged_adapters", None) or ()
    return tuple(name for name in getattr(layer, "active_adapters", ()) if name in present and name not in merged)


def adapter_kinds(layer: nn.Module) -> tuple[str, ...]:
    """Return the attributes of a layer that hold weights of adapters by the adapter's name."""
    names = (*getattr(layer, "adapter_layer_names", ()), *getattr(layer, "other_param_names", ()))
    return tuple(name for name in names if isinstance(getattr(layer, name, None), nn.ModuleDict | nn.ParameterDict))


def effective_state(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that a module computes with, by name; adapters that do nothing are left out.

    A layer inside of an adapter has the name that it has without one, and adapters are numbered in their order, so that
    a model with its adapters off has the tensors of its base.
    """
    state: dict[str, Tensor] = dict(module.state_dict())
    adapted = {path: layer for path, layer in module.named_modules() if is_adapted(layer)}
    for path, layer in reversed(adapted.items()):
        prefix = f"{path}." if path else ""
        state = {
            renamed: tensor
            for name, tensor in state.items()
            if (renamed := _effective_name(name, prefix, layer) if name.startswith(prefix) else name) is not None
        }
    return state


def adapter_scalings(module: nn.Module) -> dict[str, float]:
    """Return the factor of every adapter that a module computes with, named as its tensors are."""
    return {
        f"{path}.scaling.{number}".strip("."): float(layer.scaling[adapter])
        for path, layer in module.named_modules()
        if is_adapted(layer) and isinstance(getattr(layer, "scaling", None), dict)
        for number, adapter in enumerate(acting_adapters(layer))
        if adapter in layer.scaling
    }


def _effective_name(name: str, prefix: str, layer: nn.Module) -> str | None:
    """Return the name of a layer's tensor without the adapters around it; None where nothing computes with it."""
    head, _, tail = name.removeprefix(prefix).partition(".")
    acting = acting_adapters(layer)
    if head == "base_layer":
        return f"{prefix}{tail}"
    if head == "original_module":
        return None if acting else f"{prefix}{tail}"
    if head not in adapter_kinds(layer):
        return name
    adapter, _, rest = tail.partition(".")
    if adapter not in acting:
        return None
    return f"{prefix}{rest}" if head == "modules_to_save" else f"{prefix}{head}.{acting.index(adapter)}.{rest}"


def require_adapters(model: nn.Module) -> None:
    """Refuse a model whose adapters cannot be switched off, or are.

    Raises:
        ModelError: no adapters; adapters that were merged into the weights, that are disabled, or none of which is
            active.
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
    if not any(acting_adapters(layer) for layer in layers):
        which = "switched off" if all(getattr(layer, _SWITCH) for layer in layers) else "inactive"
        raise ModelError(
            f"All adapters of this model are {which}, so that it would be compared with itself. Switch them on first, "
            "outside of disable_adapter(), or by enable_adapter_layers() and set_adapter()."
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

"""The structure of a model in memory: a copy of its modules as they stand, on tensors of the caller's choice."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from bathyscope.core.text import shape_text
from bathyscope.model.streaming.lending import LENDING

_HOOKS: Final = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called"),
)
IN_FRONT: Final = ("forward", "_compiled_call_impl", "_original_forward")
"""What is in front of a class's own forward: mixed precision, or a compiled call."""
ADAPTERS: Final = "peft"
_INSIDE_ADAPTERS: Final = ("base_layer", "original_module")
"""Where adapters keep the layer that they are in front of."""


def copy_modules(
    model: nn.Module, tensor_for: Callable[[Tensor], Tensor], left_out: Sequence[str] = IN_FRONT
) -> nn.Module:
    """Return a copy of a model's modules, without hooks and without what is in front of their forwards.

    Args:
        tensor_for: the tensor that takes the place of a parameter or a buffer; tensors that are shared stay shared.
        left_out: attributes of modules that the copy is without.

    Raises:
        TypeError: modules that cannot be copied, such as those that hold locks or sockets.
    """
    memo: dict[int, Any] = {id(tensor): tensor_for(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for module in model.modules():
        # hooks may hold whatever a training needs, which is neither copied nor called
        memo |= {id(hooks): OrderedDict() for name in _HOOKS if (hooks := module.__dict__.get(name)) is not None}
        # a truth value is one object wherever it is, and would be lost everywhere
        values = (module.__dict__[name] for name in left_out if name in module.__dict__)
        memo |= {id(value): None for value in values if not isinstance(value, bool)}
    copied = copy.deepcopy(model, memo)
    for module in copied.modules():
        for name in left_out:
            module.__dict__.pop(name, None)
    return copied


def hollow(model: nn.Module) -> nn.Module:
    """Return the structure of a model without values, on the meta device, and without its adapters."""

    def without_values(tensor: Tensor) -> Tensor:
        empty = torch.empty_like(tensor.detach(), device="meta")
        return nn.Parameter(empty, requires_grad=False) if isinstance(tensor, nn.Parameter) else empty

    # nobody brings values to a copy that has none: streamed blocks forget who lends them
    return without_adapters(copy_modules(model, without_values, (*IN_FRONT, LENDING)))


def without_adapters(model: nn.Module) -> nn.Module:
    """Put the layers that adapters are in front of back into their places, and return the model.

    What adapters add begins without effect, so that an untrained model has none of it.
    """
    for path, module in list(model.named_modules()):
        inner = module
        while type(inner).__module__.partition(".")[0] == ADAPTERS:
            name = next((name for name in _INSIDE_ADAPTERS if name in inner._modules), None)
            if name is None:
                break
            inner = cast(nn.Module, inner._modules[name])
        if inner is not module and path:
            parent, _, key = path.rpartition(".")
            model.get_submodule(parent)._modules[key] = inner
    return model


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter by its name; of one that several names share, by the first."""
    return {name: tuple(value.shape) for name, value in model.named_parameters()}


def shape_difference(model: nn.Module, other: nn.Module) -> str:
    """Return how the parameters of a model differ from those of another; empty where names and shapes are equal."""
    return _first_difference(shapes_of(model), shapes_of(other))


def stored_difference(model: nn.Module, other: nn.Module) -> str:
    """Return how the tensors of a model that a checkpoint holds differ in name or shape from those of another.

    A tensor that has several names counts with each of them.
    """
    shapes, other_shapes = (
        {name: tuple(value.shape) for name, value in each.state_dict().items()} for each in (model, other)
    )
    return _first_difference(shapes, other_shapes)


def _first_difference(shapes: Mapping[str, tuple[int, ...]], other_shapes: Mapping[str, tuple[int, ...]]) -> str:
    for name in dict.fromkeys((*shapes, *other_shapes)):
        if shapes.get(name) != other_shapes.get(name):
            return f"{name} is {shape_text(shapes.get(name))}, not {shape_text(other_shapes.get(name))}"
    return ""

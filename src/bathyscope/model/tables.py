"""Tables: tensors a model computes with that no checkpoint holds, such as rotary frequencies and causal masks.

A checkpoint is loaded with its weights in one dtype and its tables in the dtype they were computed in. Casting a whole
model rounds the tables too: rotary frequencies in bfloat16 are other positions.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.recording import reset_rotary


def tables_of(hf: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that a checkpoint does not carry, by name."""
    return {name: value for name, value, owner, key in _buffers(hf) if key in owner._non_persistent_buffers_set}


@torch.no_grad()
def take_dtypes(hf: nn.Module, like: nn.Module) -> None:
    """Cast every parameter and every buffer to the dtype that the tensor of its name has in another model.

    ``model.to(dtype)`` would cast the tables too, which the library computes in float32 whatever the weights are.
    """
    parameters, buffers = dict(like.named_parameters()), dict(like.named_buffers())
    for name, parameter in hf.named_parameters():
        if name in parameters:
            parameter.data = parameter.data.to(parameters[name].dtype)
    for name, value, owner, key in list(_buffers(hf)):
        if name in buffers:
            owner._buffers[key] = value.to(buffers[name].dtype)


@torch.no_grad()
def take_tables(hf: nn.Module, like: nn.Module, source: Callable[[str], str] = str) -> None:
    """Copy tables of another model that have the same shape here.

    Args:
        source: the other model's name of a table of this one.
    """
    theirs = tables_of(like)
    for name, value, owner, key in list(_buffers(hf)):
        table = theirs.get(source(name))
        if key in owner._non_persistent_buffers_set and table is not None and table.shape == value.shape:
            owner._buffers[key] = table.detach().clone()
    # a dynamic table that a long forward of the other model has stretched is state, and no table of its own
    reset_rotary(hf)


def _buffers(hf: nn.Module) -> Iterator[tuple[str, Tensor, nn.Module, str]]:
    """Yield each buffer with its name, the module that holds it, and its key there."""
    for path, module in hf.named_modules():
        for key, value in module._buffers.items():
            if value is not None:
                yield f"{path}.{key}".strip("."), value, module, key

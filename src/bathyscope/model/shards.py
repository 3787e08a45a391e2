"""Weights that are split over ranks: which models have them, and the whole tensors, some rows at a time.

transformers stores a split weight as a DTensor, of which each rank has a part. Parts are put together in the order
that torch gives for a layout, so that packed weights (gates and up projections in one matrix) come out as in a file.
Everything here that gives whole tensors is a collective: all ranks ask for the same tensors in the same order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.marks import chunks
from bathyscope.model.origins import unbound
from bathyscope.model.ranks import of_all

_CHUNK_BYTES: Final = 1 << 26
_FSDP: Final = "torch.distributed.fsdp"
_PLANS: Final = "transformers.distributed"
"""Package that replaces the ``forward`` of modules with split weights."""


def is_shard(value: object) -> bool:
    """Whether a tensor is the part of one rank."""
    # torch.distributed takes a second to import, and nothing of it exists where nobody has imported it
    return type(value).__name__ == "DTensor" and type(value).__module__.startswith("torch.distributed")


def is_split(hf: nn.Module) -> bool:
    """Whether weights of a model are split over ranks."""
    return any(is_shard(value.data) for value in hf.parameters())


def is_fully_sharded(hf: nn.Module) -> bool:
    """Return whether FSDP (``fully_shard``) scatters a model's weights."""
    # nothing of it exists where nobody has imported it
    kind = getattr(sys.modules.get(_FSDP), "FSDPModule", None)
    return kind is not None and any(isinstance(module, kind) for module in hf.modules())


def split_fault(hf: nn.Module) -> str:
    """Say why the split weights of a model cannot be read; empty where transformers' own plan has split them."""
    import torch.distributed as dist

    if is_fully_sharded(hf):
        return "is split by FSDP, which gathers blocks for a training's forward"
    setting: Any = getattr(getattr(hf, "config", None), "distributed_config", None)
    if setting is None:
        return "is split by something else than the plan of transformers"
    for option, what in (("ep_size", "experts"), ("pp_size", "blocks"), ("fsdp_size", "data")):
        if (getattr(setting, option, None) or 1) > 1:
            return f"is split by {what} as well ({option}={getattr(setting, option)})"
    for name, value in hf.named_parameters():
        shard: Any = value.data
        if is_shard(shard) and (shard.device_mesh.ndim != 1 or shard.device_mesh.size() != dist.get_world_size()):
            return f"has {name} on {shard.device_mesh.size()} of {dist.get_world_size()} processes"
        if is_shard(shard) and any(placement.is_partial() for placement in shard.placements):
            return f"has {name} as sums that are still to be added up"
    return ""


def local(value: Tensor) -> Tensor:
    """Return the part of a tensor that is on this rank; of a plain one all of it."""
    return value.to_local() if is_shard(value) else value  # type: ignore[attr-defined]


def locals_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what is on this rank, by name."""
    return {name: local(value.detach()) for name, value in tensors.items()}


@torch.no_grad()
def whole_chunks(value: Tensor, most: int = _CHUNK_BYTES) -> Iterator[Tensor]:
    """Yield the values of a whole tensor in their order, in flat pieces of about ``most`` bytes (collective)."""
    if not is_shard(value):
        yield from chunks(value, most)
        return
    shard: Any = value
    part = shard.to_local().detach()
    (placement,) = shard.placements
    if placement.is_replicate():
        yield from chunks(part, most)
        return
    axis = placement.dim % shard.ndim
    places = _places(shard, axis)
    step = max(1, most * shard.shape[0] // max(1, shard.numel() * shard.element_size()))
    for first in range(0, shard.shape[0], step):
        last = min(first + step, shard.shape[0])
        yield _rows(part, places, axis, (first, last), tuple(shard.shape[1:])).reshape(-1)


@torch.no_grad()
def whole(value: Tensor) -> Tensor:
    """Return a whole tensor (collective); a plain one as it is."""
    if not is_shard(value):
        return value
    return torch.cat(list(whole_chunks(value))).view(value.shape)


@contextmanager
def whole_block(block: nn.Module) -> Iterator[nn.Module]:
    """Give a block with all of its weights and without collectives inside (collective); a plain one as it is.

    Its memory is that of one whole block, on every rank.
    """
    parts: list[tuple[nn.Module, str, nn.Parameter]] = []
    forwards: list[tuple[nn.Module, Any]] = []
    for module in block.modules():
        for name, value in module._parameters.items():
            if value is not None and is_shard(value.data):
                parts.append((module, name, value))
        if is_of_plan(vars(module).get("forward")):
            forwards.append((module, vars(module)["forward"]))
    try:
        for module, name, value in parts:
            module._parameters[name] = nn.Parameter(whole(value.data), requires_grad=value.requires_grad)
        for module, _ in forwards:
            del module.forward
        yield block
    finally:
        for module, name, value in parts:
            module._parameters[name] = value
        for module, forward in forwards:
            module.forward = forward


def is_of_plan(method: object) -> bool:
    """Whether a method in front of a module's own is the one by which transformers' plan calls it."""
    return str(getattr(unbound(method), "__globals__", {}).get("__name__", "")).startswith(_PLANS)


def _places(shard: Any, axis: int) -> list[Tensor]:
    """Return for each rank which entries along the split axis it has, as torch divides that axis (collective)."""
    from torch.distributed.tensor import distribute_tensor

    shape = [1] * shard.ndim
    shape[axis] = shard.shape[axis]
    numbers = torch.arange(shard.shape[axis], device=shard.to_local().device).view(shape)
    divided = distribute_tensor(numbers, shard.device_mesh, shard.placements, src_data_rank=None)
    own_part = divided.to_local().reshape(-1).tolist()
    places = [torch.tensor(part, dtype=torch.long, device=numbers.device) for part in of_all(own_part)]
    # a layout that torch itself does not divide evenly would put weights in the wrong places
    if sorted(number for part in places for number in part.tolist()) != list(range(shard.shape[axis])):
        raise ModelError(
            f"A weight of shape {list(shard.shape)} is split over {len(places)} processes in a way that does not give "
            "the whole again; load the model without tensor_parallel."
        )
    return places


def _rows(part: Tensor, places: list[Tensor], axis: int, rows: tuple[int, int], shape: tuple[int, ...]) -> Tensor:
    """Return some rows of a whole tensor: each rank sends what it has of them to all others."""
    import torch.distributed as dist

    first, last = rows
    whole_rows = torch.empty((last - first, *shape), dtype=part.dtype, device=part.device)
    for sender, numbers in enumerate(places):
        is_here = sender == dist.get_rank()
        if axis == 0:
            chosen = ((numbers >= first) & (numbers < last)).nonzero().flatten()
            if not len(chosen):
                continue
            target, size = numbers[chosen] - first, (len(chosen), *shape)
            piece = part[chosen].contiguous() if is_here else part.new_empty(size)
        else:
            target, size = numbers, (last - first, *shape[: axis - 1], len(numbers), *shape[axis:])
            piece = part[first:last].contiguous() if is_here else part.new_empty(size)
        # numbers of eight bits are not known to every backend
        dist.broadcast(piece.view(torch.uint8) if piece.element_size() == 1 else piece, src=sender)
        whole_rows.index_copy_(axis, target, piece)
    return whole_rows

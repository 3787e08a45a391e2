"""Weights that FSDP scatters over the processes of a training: whole in the first of them while it is surveyed.

Every process of the training calls its watch at every step, and what is decided by the first one (whether a step is
surveyed) is known to all, since the weights are gathered by collectives: calls that all of them make, in one order.
Of the version of FSDP that is ``torch.distributed.fsdp.fully_shard``, which accelerate and transformers use too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

from bathyscope.model.shards import is_shard

T = TypeVar("T")
_NOTES: Final = ("__composable_api_state_key", "_is_fsdp_managed_module", "_fsdp_use_orig_params")
"""How the attributes begin in which FSDP keeps its state on a module."""
_PATIENCE: Final = timedelta(days=7)
"""The others wait for the first one's survey, which may take longer than a step of a training ever does."""
_ROOM: Final = 1.5
"""So many times the weights have to be free on an accelerator for them to be gathered there, and not in main memory."""


class Gathering:
    """The processes of one training, in the watch that each of them has (made by all of them)."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)

    def agreed(self, value: T) -> T:
        """Return the value of the first process in all (collective)."""
        import torch.distributed as dist

        values: list[Any] = [value]
        dist.broadcast_object_list(values, src=0, group=self._group, device=torch.device("cpu"))
        agreed: T = values[0]
        return agreed

    def wait(self) -> None:
        """Return where all processes have come here (collective)."""
        import torch.distributed as dist

        dist.barrier(self._group)

    def whole(self, model: nn.Module) -> dict[int, Tensor]:
        """Return in the first process whole tensors by the ``id`` of their parameters, elsewhere nothing (collective).

        One after another, so that the others hold one whole tensor at a time.
        """
        import torch.distributed as dist
        from torch.distributed.fsdp import FSDPModule

        for module in model.modules():
            if isinstance(module, FSDPModule):
                # what a forward has gathered and not given back may be rounded, or older than the last update
                module.reshard()
        is_first = dist.get_rank() == 0
        home = _home(model) if is_first else None
        tensors: dict[int, Tensor] = {}
        for parameter in model.parameters():
            value: Any = parameter.detach()
            tensor = value.full_tensor() if is_shard(value) else value
            if is_first:
                tensors[id(parameter)] = nn.Parameter(tensor.to(home), requires_grad=parameter.requires_grad)
        return tensors


@contextmanager
def as_plain_modules(model: nn.Module) -> Iterator[tuple[str, ...]]:
    """Give the modules of a sharded model the classes that they had, for a copy of them.

    Yields:
        The attributes in which FSDP keeps its state, which a copy is made without.
    """
    from torch.distributed.fsdp import FSDPModule

    classes = [(module, type(module)) for module in model.modules() if isinstance(module, FSDPModule)]
    notes = {name for module in model.modules() for name in vars(module) if name.startswith(_NOTES)}
    try:
        for module, kind in classes:
            # the class of FSDP stands before the module's own
            module.__class__ = kind.__mro__[kind.__mro__.index(FSDPModule) + 1]
        yield tuple(sorted(notes))
    finally:
        for module, kind in classes:
            module.__class__ = kind


def _home(model: nn.Module) -> torch.device:
    """Return where whole weights are kept: on the training's device where it has room for them."""
    device = next(model.parameters()).device
    if device.type != "cuda":
        return device
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return device if torch.cuda.mem_get_info(device)[0] > _ROOM * size else torch.device("cpu")

"""Does the declared readout give the model's own logits? Asked in float32, whatever the weights are stored in.

In bfloat16 a softcap that nobody declared can be smaller than the rounding of the logits, and yet move a loss by a
tenth of a nat. What lies behind the last block is therefore widened for as long as it is compared.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.gaps import gap
from bathyscope.anatomy.plain import logits_of
from bathyscope.anatomy.recording import replaced_forwards


@torch.no_grad()
def readout_gap(anatomy: Anatomy, ids_BT: Tensor, final_BTD: Tensor, behind: Iterable[nn.Module]) -> float:
    """The declared readout of h_L against the logits that the model itself makes of it.

    Args:
        behind: the modules that run after the last block.
    """
    readout = anatomy.readout
    path = [module for module in (*behind, readout.norm, readout.projection, readout.head) if module is not None]
    resid_BTD = final_BTD.to(torch.promote_types(final_BTD.dtype, torch.float32))

    def hand_on(length: int | None) -> Any:
        return lambda *_, **__: resid_BTD if length is None else (resid_BTD, *[None] * (length - 1))

    with _widened(path), replaced_forwards(anatomy.blocks, [hand_on(length) for length in anatomy.returns]):
        wanted = logits_of(anatomy.model(input_ids=ids_BT, use_cache=False))
        found = readout(resid_BTD)
        # token by token: what mixed tokens would pass on the whole batch
        single = readout(resid_BTD[0, :1])
    return max(gap(found, wanted), gap(single, wanted[0, :1]))


@contextmanager
def _widened(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, parameters narrower than float32 stand in float32; weights that others share stay theirs."""
    held = {
        (owner, name): p for module in modules for owner in module.modules() for name, p in owner._parameters.items()
    }
    narrow = {key: p for key, p in held.items() if p is not None and p.is_floating_point() and p.element_size() == 2}
    try:
        for (owner, name), parameter in narrow.items():
            owner._parameters[name] = nn.Parameter(parameter.float(), requires_grad=False)
        yield
    finally:
        for (owner, name), parameter in narrow.items():
            owner._parameters[name] = parameter

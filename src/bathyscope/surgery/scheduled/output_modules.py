"""Which modules of a block write a part of it into the residual stream; found by running it, whatever their names."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.gaps import gap, random_ids
from bathyscope.model.anatomy.sites import tapped
from bathyscope.wavefront.histories import Unit

_EQUAL = 1e-5


@torch.no_grad()
def modules_that_write(anatomy: Anatomy, unit: Unit, accept: Callable[[nn.Module], bool]) -> list[nn.Module]:
    """Return the modules whose output is what a part adds, up to a constant factor, in their order in the block.

    Args:
        accept: which modules count.
    """
    block = anatomy.blocks[unit.block]
    site = anatomy.sites.get(unit.part)
    if site is None:
        return []
    candidates = [(name, module) for name, module in block.named_modules() if accept(module)]
    outputs: dict[str, Tensor] = {}

    def note(call: Call) -> None:
        if isinstance(call.value, Tensor):
            # a copy, since some families write into what a module gave
            outputs[call.path] = call.value.detach().clone()

    replay = anatomy.replay(random_ids(anatomy.model))
    passed = replay.passed_to(anatomy.blocks, unit.block)
    with tapped(block, {unit.part: site}) as taken, called(candidates, note):
        replay.run(block, unit.block, replay.recording.resid0_BTD, state=passed)
    if unit.part not in taken:
        return []
    added = taken[unit.part]
    return [module for name, module in candidates if name in outputs and same_up_to_scale(outputs[name], added)]


def same_up_to_scale(output: Tensor, added: Tensor) -> bool:
    """Return whether two tensors are one but for a constant factor."""
    if output.numel() != added.numel():
        return False
    first, second = output.float().reshape(-1), added.float().reshape(-1)
    # the factor of least squares: families scale what they add by constants that are no module of their own
    scale = (first @ second) / (first @ first).clamp_min(1e-30)
    return gap(first * scale, second) <= _EQUAL

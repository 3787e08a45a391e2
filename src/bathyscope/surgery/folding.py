"""A linear map behind a block's MLP, folded into the weights before it.

Let m be what the MLP adds to the residual stream. The map T in its place adds m T. Where m = z W + b is the output of a
matrix, m T = z (W T) + b T is the output of another one, so that the map costs nothing. (ReplaceMe, 2505.02819, folds
the map of a run of dropped blocks so.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.calls import Call, called
from bathyscope.anatomy.gaps import CHECK_TOKENS, gap, random_ids
from bathyscope.anatomy.sites import tapped
from bathyscope.errors import ModelError

_EQUAL = 1e-5


@torch.no_grad()
def last_matrix(anatomy: Anatomy, index: int) -> nn.Linear | Conv1D:
    """The matrix whose output is what a block's MLP adds to the residual stream, up to a constant factor.

    It is found by running the block, whatever its family calls it.

    Raises:
        ModelError: there is none: parts cannot be told apart, a norm or a gate follows, or experts are summed.
    """
    block, site = anatomy.blocks[index], anatomy.sites.get("mlp")
    if site is not None:
        replay = anatomy.replay(random_ids(anatomy.model, CHECK_TOKENS, next(anatomy.model.parameters()).device))
        seen: dict[str, Tensor] = {}

        def keep(name: str, call: Call) -> None:
            seen[name] = call.value.detach().clone()

        matrices = {name: m for name, m in block.named_modules() if isinstance(m, nn.Linear | Conv1D)}
        stream = replay.recording.resid0_BTD
        every = torch.arange(len(stream), device=stream.device)
        with tapped(block, {"mlp": site}) as taken, called(list(matrices.items()), lambda c: keep(c.path, c)):
            replay.run(block, index, stream, every, state={})
        for name, module in matrices.items():
            if "mlp" in taken and name in seen and _same_up_to_scale(seen[name], taken["mlp"]):
                return module
    raise ModelError(
        f"{anatomy.family.name}: nothing can be folded into block {index}, since what its MLP adds to the residual "
        "stream is not the output of one matrix (a norm or a gate follows it, experts are summed, or the parts cannot "
        "be told apart); repair by training instead (how='heal')."
    )


def _same_up_to_scale(given: Tensor, added: Tensor) -> bool:
    if given.numel() != added.numel():
        return False
    first, second = given.float().reshape(-1), added.float().reshape(-1)
    scale = (first @ second) / (first @ first).clamp_min(1e-30)
    return gap(first * scale, second) <= _EQUAL


@torch.no_grad()
def fold(module: nn.Linear | Conv1D, map_EE: Tensor, shift_E: Tensor | None = None) -> None:
    """The module's outputs y become y T + c; its weights become tensors of their own.

    Args:
        map_EE: T, in float64.
        shift_E: c, in units of the module's output; only where it has a bias.
    """
    weight = module.weight.to(map_EE)
    made = map_EE.T @ weight if isinstance(module, nn.Linear) else weight @ map_EE
    module.weight = nn.Parameter(made.to(module.weight.dtype), requires_grad=False)
    if module.bias is not None:
        bias = module.bias.to(map_EE) @ map_EE
        bias = bias if shift_E is None else bias + shift_E
        module.bias = nn.Parameter(bias.to(module.bias.dtype), requires_grad=False)

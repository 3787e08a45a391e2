"""Can gradients pass through this model? Asked before any compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.replay import State
from bathyscope.errors import ModelError
from bathyscope.gradients.differentiating import differentiating

_PROBE_IDS = ((1, 2, 3, 4),)
_LOAD = "Load the model unquantised, in float32, bfloat16 or float16."


def require_differentiable(anatomy: Anatomy, measure: str) -> None:
    """Refuses models through which autograd does not pass, by their weights' dtypes and by a pass of four tokens.

    A model without values (on the meta device, for estimates) is asked for its dtypes only.

    Args:
        measure: who asks, for messages.

    Raises:
        ModelError: quantised weights (integers, float8), a module that cuts the gradient off, or a backward pass
            that fails.
    """
    for name, value in _weights(anatomy.model):
        if _is_quantised(value):
            dtype = str(value.dtype).removeprefix("torch.")
            raise ModelError(
                f"{measure} needs gradients, and the weight {name} is stored as {dtype}, through which they do not "
                f"pass exactly. {_LOAD}"
            )
    if any(p.device.type == "meta" for p in anatomy.model.parameters()):
        return
    cut: list[str] = []
    with differentiating(anatomy.model), ExitStack() as stack:
        for path, module in anatomy.model.named_modules():
            if any(p.ndim >= 2 for p in module.parameters(recurse=False)):
                handle = module.register_forward_hook(_watch(path, cut), with_kwargs=True)
                stack.callback(handle.remove)
        try:
            passed = _backward(anatomy)
        except (RuntimeError, NotImplementedError) as error:
            raise ModelError(
                f"{measure} needs gradients, and this {anatomy.family.name} model cannot give them: "
                f"{str(error).splitlines()[0]} {_LOAD}"
            ) from error
    if cut or not passed:
        where = f"the module {cut[0]} ({len(cut)} in all)" if cut else "one of its blocks"
        raise ModelError(
            f"{measure} needs gradients, and {where} of this {anatomy.family.name} model gives an output that is cut "
            f"off from its input. {_LOAD}"
        )


def _weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, and buffers that quantised layers hold in the place of weights."""
    yield from model.named_parameters()
    yield from ((name, value) for name, value in model.named_buffers() if name.endswith("weight") and value.ndim >= 2)


def _is_quantised(value: Tensor) -> bool:
    return not value.is_floating_point() or value.element_size() == 1


def _watch(path: str, cut: list[str]) -> Any:
    """Notes a module whose input asks for a gradient and whose output does not give one."""

    def look(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        outputs = output if isinstance(output, tuple | list) else (output,)
        # a family may switch gradients off itself, for choosing what to attend to
        if torch.is_grad_enabled() and _asks([*args, *kwargs.values()]) and not _asks(outputs):
            cut.append(path)

    return look


def _asks(values: Any) -> bool:
    return any(isinstance(value, Tensor) and value.requires_grad for value in values)


def _backward(anatomy: Anatomy) -> bool:
    """One backward pass from the logits of a few tokens to h_0; False where nothing arrives."""
    device = next(anatomy.model.parameters()).device
    replay = anatomy.replay(torch.tensor(_PROBE_IDS, device=device))
    leaf = replay.recording.resid0_BTD.clone().requires_grad_()
    resid, state = leaf, State()
    for index, block in enumerate(anatomy.blocks):
        resid = replay.run(block, index, resid, None, state=state)
    score = anatomy.readout(resid.flatten(0, 1)).float().softmax(-1)[:, 0].sum()
    (gradient,) = torch.autograd.grad(score, leaf, allow_unused=True)
    return gradient is not None

"""Plain reference for Jacobian lenses: the real model's whole graph, and one backward pass for every direction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from support import naive
from torch import Tensor, nn
from transformers import PreTrainedModel


def streams(model: PreTrainedModel, ids: Sequence[int]) -> list[Tensor]:
    """h_0 … h_L [1, T, d] of one forward, in one graph that begins at h_0."""
    blocks = naive.blocks_of(model)
    boundaries: list[Tensor] = []

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if args:
            boundaries.append(args[0].detach().requires_grad_())
            return (boundaries[0], *args[1:]), kwargs
        boundaries.append(kwargs["hidden_states"].detach().requires_grad_())
        return args, {**kwargs, "hidden_states": boundaries[0]}

    def note(module: nn.Module, args: object, output: Any) -> None:
        boundaries.append(output if isinstance(output, Tensor) else output[0])

    with ExitStack() as stack:
        stack.callback(blocks[0].register_forward_pre_hook(begin, with_kwargs=True).remove)
        for block in blocks:
            stack.callback(block.register_forward_hook(note).remove)
        with torch.enable_grad():
            model(torch.tensor([list(ids)]), use_cache=False)
    return boundaries


def jacobians(model: PreTrainedModel, ids: Sequence[int], skip_first: int) -> Tensor:
    """J_b [L, d, d] of one prompt: row i is the mean over sources of the gradient of Σ over targets of h_L[…, i]."""
    boundaries = streams(model, ids)
    counted = slice(skip_first, len(ids) - 1)
    width = boundaries[0].shape[-1]
    rows = []
    for channel in range(width):
        score = boundaries[-1][0, counted, channel].sum()
        gradients = torch.autograd.grad(score, boundaries[:-1], retain_graph=True)
        rows.append(torch.stack([gradient[0, counted].mean(0) for gradient in gradients]))
    return torch.stack(rows, dim=1).detach()

"""Residual erasure the plain way: one full forward of the real model for every boundary and token.

Nothing is shared with the engine; see ``support.naive`` for the conventions and shapes.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from support import naive
from torch import Tensor, nn
from transformers import PreTrainedModel


def mean_residual(
    model: PreTrainedModel, blocks: naive.Blocks, prompts: Sequence[Sequence[int]], first: int = 0
) -> Tensor:
    """The mean over the tokens of all prompts, from ``first`` on, at every boundary: [L+1, d]."""
    streams = [naive.boundaries(model, blocks, ids)[:, first:].double() for ids in prompts]
    return torch.cat(streams, dim=1).mean(1).to(torch.promote_types(model.dtype, torch.float32))


def erased_logits(
    model: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int], b: int, t: int, value: Tensor
) -> Tensor:
    """Logits [T, V] with h_b[t] replaced by ``value`` [d], which may hold stored streams behind the stream."""
    places = naive.storing(model, blocks)
    if places:
        return _erased_with_stored(model, blocks, ids, b, t, value.chunk(1 + len(places)), places)
    if b == len(blocks):
        handle = blocks[-1].register_forward_hook(lambda _m, _a, out: _replaced_output(out, t, value))
    else:
        handle = blocks[b].register_forward_pre_hook(
            lambda module, args, kwargs: _replaced_input(module, args, kwargs, t, value), with_kwargs=True
        )
    try:
        return naive.logits(model, ids)
    finally:
        handle.remove()


def _erased_with_stored(
    model: Any, blocks: naive.Blocks, ids: Sequence[int], b: int, t: int, value: Sequence[Tensor], places: list[int]
) -> Tensor:
    """The same where blocks from ``b`` on are given replaced stored streams as well."""

    def hook(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        earlier = bound.arguments["block_states"].clone()
        for number, place in enumerate(places):
            if place <= b and number < earlier.shape[-2]:
                earlier[:, t, number] = value[1 + number]
        bound.arguments["block_states"] = earlier
        if b < len(blocks) and module is blocks[b]:
            stream = bound.arguments["hidden_states"].clone()
            stream[:, t] = value[0]
            bound.arguments["hidden_states"] = stream
        return bound.args, bound.kwargs

    hooks = [
        module.register_forward_pre_hook(hook, with_kwargs=True) for module in (*blocks[b:], model.model.final_input)
    ]
    if b == len(blocks):
        hooks.append(blocks[-1].register_forward_hook(lambda _m, _a, out: _replaced_output(out, t, value[0])))
    try:
        return naive.logits(model, ids)
    finally:
        for handle in hooks:
            handle.remove()


def erasure(
    model: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int], answer: int, values: Tensor
) -> tuple[Tensor, Tensor]:
    """(effect, effect_future), each [L+1, T]; ``values`` [L+1, d]. The last token has no later one: NaN."""
    base = naive.logits(model, ids)
    tokens = len(ids)
    effect = torch.zeros(len(values), tokens, dtype=torch.float64)
    future = torch.full_like(effect, torch.nan)
    for b, value in enumerate(values):
        for t in range(tokens):
            change = naive.output_change(base, erased_logits(model, blocks, ids, b, t, value))
            effect[b, t] = change[tokens - 1 - answer : tokens - 1].max()
            if t < tokens - 1:
                future[b, t] = change[t + 1 :].max()
    return effect, future


def _replaced_input(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], t: int, value: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The block's arguments with the stream [1, T, d] replaced at token ``t``."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    stream = naive.entering(bound).clone()
    stream[:, t] = value
    naive.enter(bound, stream)
    return bound.args, bound.kwargs


def _replaced_output(output: Any, t: int, value: Tensor) -> Any:
    stream = naive.leaving(output).clone()
    stream[:, t] = value
    return naive.leave(output, stream)

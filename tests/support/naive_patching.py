"""Patching the plain way: one full forward of the real model for every part, boundary and token.

Nothing is shared with the engine; see ``support.naive`` for the conventions and shapes.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from support import naive, naive_erasure
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.model.anatomy.family import Site


def patched_logits(
    model: PreTrainedModel,
    blocks: naive.Blocks,
    target: Sequence[int],
    given: Tensor,
    boundary: int,
    tokens: Sequence[int],
    part: str = "block",
) -> Tensor:
    """Logits [T, V] of ``target`` in which some tokens hold what is ``given`` [L or L+1, T, d] (``held``) instead."""
    rows, given = list(tokens), given[boundary]
    with ExitStack() as stack:
        if part == "block":
            stack.callback(_replacing_stream(blocks, boundary, rows, given[rows]).remove)
        else:
            for place, (module, site) in enumerate(naive.modules_at(blocks[boundary], naive.sites_of(model)[part])):
                # of several modules the first carries all of it
                added = given[rows] if place == 0 else torch.zeros_like(given[rows])
                stack.callback(_replacing_part(module, site, blocks[boundary], rows, added).remove)
        return naive.logits(model, target)


def held(model: PreTrainedModel, blocks: naive.Blocks, ids: Sequence[int], part: str) -> Tensor:
    """What a prompt holds: the stream at every boundary, or what a part adds in every block."""
    return naive.boundaries(model, blocks, ids) if part == "block" else naive.contributions(model, blocks, ids)[part]


def _replacing_stream(blocks: naive.Blocks, boundary: int, rows: list[int], value: Tensor) -> Any:
    if boundary == len(blocks):
        return blocks[-1].register_forward_hook(lambda _m, _a, out: naive_erasure._replaced_output(out, rows, value))
    return blocks[boundary].register_forward_pre_hook(
        lambda module, args, kwargs: naive_erasure._replaced_input(module, args, kwargs, rows, value), with_kwargs=True
    )


def _replacing_part(module: nn.Module, site: Site, block: nn.Module, rows: list[int], added: Tensor) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        value = (output[0] if isinstance(output, tuple | list) else output).clone()
        by_token = value.view(-1, value.shape[-1])
        wanted = added if site.scale is None else added / getattr(block, site.scale)
        if site.minus is not None:
            bound = inspect.signature(module.forward).bind(*args, **kwargs)
            stream = bound.arguments[site.minus]
            wanted = wanted + stream.reshape(-1, stream.shape[-1])[rows]
        by_token[rows] = wanted
        return type(output)([value, *output[1:]]) if isinstance(output, tuple | list) else value

    return module.register_forward_hook(hook, with_kwargs=True)

"""A Llama with idle blocks put in: they add nothing to the residual stream, so that the model computes the same."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from transformers import LlamaForCausalLM, PreTrainedModel


def with_idle_blocks(model: PreTrainedModel, order: Sequence[int | None]) -> LlamaForCausalLM:
    """The model whose blocks are those of ``model`` in this order, None standing for an idle one.

    An idle block is a copy of the block before it whose output projections are zero: attention and MLP run, and
    add exactly nothing.
    """
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = len(order)
    made = LlamaForCausalLM(config).to(model.dtype).eval()
    outside = {name: value for name, value in model.state_dict().items() if ".layers." not in name}
    made.load_state_dict(outside, strict=False)
    source = 0
    with torch.no_grad():
        for block, number in zip(made.model.layers, order, strict=True):
            source = source if number is None else number
            block.load_state_dict(model.model.layers[source].state_dict())
            if number is None:
                block.self_attn.o_proj.weight.zero_()
                block.mlp.down_proj.weight.zero_()
    return made


def after_each(blocks: int) -> list[int | None]:
    """An idle block behind every block: 0, None, 1, None, …"""
    return [number for block in range(blocks) for number in (block, None)]


def behind_all(blocks: int) -> list[int | None]:
    """As many idle blocks as there are others, behind the last."""
    return [*range(blocks), *[None] * blocks]

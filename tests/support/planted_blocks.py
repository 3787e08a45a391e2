"""A Llama in which two blocks are built by hand: what they read, and where they write."""

from __future__ import annotations

from typing import Any, Final

import torch
from support import zoo
from torch import nn
from transformers import PreTrainedModel

PLACES: Final = {"read": slice(0, 8), "first": slice(8, 16), "second": slice(16, 24)}
"""Channels: those that both blocks may read, and those that the first and the second of them writes."""


@torch.no_grad()
def two_workers(reads: slice) -> PreTrainedModel:
    """Return a Llama whose block 1 reads and writes channels of its own, and block 2 reads these channels.

    Norms are left out of both, since the scale of a norm reads every channel.
    """
    model: Any = zoo.entry("llama").build()
    _confine(model.model.layers[1], PLACES["read"], PLACES["first"])
    _confine(model.model.layers[2], reads, PLACES["second"])
    return model


def _confine(block: Any, reads: slice, writes: slice) -> None:
    """Let a block read some channels and write others."""
    block.input_layernorm, block.post_attention_layernorm = nn.Identity(), nn.Identity()
    readers = (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj)
    for matrix in (*readers, block.mlp.gate_proj, block.mlp.up_proj):
        keep(matrix.weight, (slice(None), reads))
    for matrix in (block.self_attn.o_proj, block.mlp.down_proj):
        keep(matrix.weight, (writes, slice(None)))


def keep(weight: torch.Tensor, part: tuple[slice, slice]) -> None:
    """Set all of a matrix to zero but a part of it."""
    kept = weight[part].clone()
    weight.zero_()
    weight[part] = kept

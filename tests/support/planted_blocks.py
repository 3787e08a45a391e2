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


@torch.no_grad()
def backed_up(strength: float) -> PreTrainedModel:
    """Return a Llama whose block 1 writes a linear function of some channels, and block 2 what is missing of it.

    Block 1 writes v = W·read. Block 2 adds ``strength``·(v − what stands there): nothing where block 1 has run, and
    that share of v where it has not. Gates read a channel that is the same at every token, so that their MLPs are
    linear; nothing before them writes into it, or where they do.
    """
    model: Any = zoo.entry("llama").build()
    decoder = model.model
    constant, write = 31, PLACES["first"]
    decoder.embed_tokens.weight[:, write] = 0.0
    decoder.embed_tokens.weight[:, constant] = 2.0
    for matrix in (decoder.layers[0].self_attn.o_proj, decoder.layers[0].mlp.down_proj):
        matrix.weight[write] = 0.0
        matrix.weight[constant] = 0.0
    function = torch.randn(8, 8, generator=torch.Generator().manual_seed(3))
    for block, share, seen in ((decoder.layers[1], 1.0, 0.0), (decoder.layers[2], strength, 1.0)):
        block.input_layernorm, block.post_attention_layernorm = nn.Identity(), nn.Identity()
        gate, up, down = (getattr(block.mlp, name).weight for name in ("gate_proj", "up_proj", "down_proj"))
        for weight in (block.self_attn.o_proj.weight, gate, up, down):
            weight.zero_()
        gate[:8, constant] = 1.0
        up[:8, PLACES["read"]] = function
        up[:8, write] = -seen * torch.eye(8)
        down[write, :8] = share * torch.eye(8) / nn.functional.silu(torch.tensor(2.0))
    return model

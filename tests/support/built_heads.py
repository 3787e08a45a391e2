"""A GPT-2 whose heads attend to everything alike, and heads built into it for one purpose."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import GPT2Config, GPT2LMHeadModel

STRENGTH = 6.0
_LOUD = 30.0
"""So much larger than the random embeddings that layer norm leaves little of these."""


def even_gpt2(tokens: int, *, vocabulary: int = 50, heads: int = 4) -> GPT2LMHeadModel:
    """Three blocks without queries and keys: every token gives every allowed one the same weight."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=vocabulary, n_positions=tokens, n_embd=4 * tokens, n_layer=3, n_head=heads)
        model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight.zero_()
        model.transformer.wpe.weight[:, :tokens] = _LOUD * torch.eye(tokens)
    return model


def build_previous(model: GPT2LMHeadModel, block: int, head: int) -> None:
    """One head attends to the token before, whatever it is: every position's query is the key of the one before."""
    tokens, width = model.config.n_positions, model.config.n_embd
    query, key = _columns(model, head)
    with torch.no_grad():
        weight = model.transformer.h[block].attn.c_attn.weight
        assert weight.shape == (width, 3 * width)
        weight[1:tokens, query : query + tokens - 1] += STRENGTH * torch.eye(tokens - 1)
        weight[:tokens, key : key + tokens] += STRENGTH * torch.eye(tokens)


def build_marked(model: GPT2LMHeadModel, block: int, head: int, marked: Sequence[int]) -> None:
    """One head attends to the tokens with these ids, to all that stand before or at the query alike."""
    channel = model.config.n_positions  # the first that holds no position
    query, key = _columns(model, head)
    with torch.no_grad():
        model.transformer.wte.weight[list(marked), channel] = _LOUD
        attention = model.transformer.h[block].attn.c_attn
        attention.bias[query] += STRENGTH
        attention.weight[channel, key] += STRENGTH


def _columns(model: GPT2LMHeadModel, head: int) -> tuple[int, int]:
    """Where the head's queries and keys begin in the fused projection."""
    size = model.config.n_embd // model.config.n_head
    assert size >= model.config.n_positions
    return head * size, model.config.n_embd + head * size

"""A tiny Llama as its users cut it about in memory: its configuration goes on saying what it said before."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


def tiny(n_blocks: int, **settings: object) -> LlamaForCausalLM:
    """Return a Llama with weights large enough that each block changes what is predicted."""
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=n_blocks,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        eos_token_id=None,
    )
    for name, value in settings.items():
        setattr(config, name, value)
    return LlamaForCausalLM(config).eval()


Edit = Callable[[LlamaForCausalLM], None]


class PassThrough(nn.Module):
    """A block that hands the stream on."""

    def forward(self, hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return hidden_states


class Scaled(nn.Module):
    """A block with a parameter of its own, which Llama does not know how to initialise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return hidden_states + self.gain * hidden_states


class ResettableScaled(Scaled):
    """The same, with torch's own way to initialise a module."""

    def reset_parameters(self) -> None:
        """Set all gains to 0."""
        nn.init.zeros_(self.gain)


def sliced(hf: LlamaForCausalLM) -> None:
    hf.model.layers = hf.model.layers[:2]


def without_the_first(hf: LlamaForCausalLM) -> None:
    del hf.model.layers[0]


def without_the_last(hf: LlamaForCausalLM) -> None:
    del hf.model.layers[-1]


def passing_through(hf: LlamaForCausalLM) -> None:
    hf.model.layers[1] = PassThrough()


def with_a_stranger(hf: LlamaForCausalLM) -> None:
    hf.model.layers[1] = Scaled(32)


def with_a_resettable_stranger(hf: LlamaForCausalLM) -> None:
    hf.model.layers[1] = ResettableScaled(32)


def narrowed(hf: LlamaForCausalLM) -> None:
    mlp = hf.model.layers[0].mlp
    mlp.gate_proj, mlp.up_proj = _rows(mlp.gate_proj, 32), _rows(mlp.up_proj, 32)
    mlp.down_proj = _columns(mlp.down_proj, 32)


def with_fewer_heads(hf: LlamaForCausalLM) -> None:
    attention = hf.model.layers[0].self_attn
    attention.q_proj, attention.o_proj = _rows(attention.q_proj, 16), _columns(attention.o_proj, 16)
    attention.k_proj, attention.v_proj = _rows(attention.k_proj, 8), _rows(attention.v_proj, 8)


def resized(hf: LlamaForCausalLM) -> None:
    hf.resize_token_embeddings(80, mean_resizing=False)


def resized_by_hand(hf: LlamaForCausalLM) -> None:
    hf.model.embed_tokens, hf.lm_head = nn.Embedding(80, 32), nn.Linear(32, 80, bias=False)


def tied(hf: LlamaForCausalLM) -> None:
    hf.lm_head.weight = hf.model.embed_tokens.weight


def with_another_scale(hf: LlamaForCausalLM) -> None:
    hf.model.layers[0].self_attn.scaling = 0.1


EDITS: tuple[Edit, ...] = (
    *(sliced, without_the_first, without_the_last, passing_through, with_a_stranger, with_a_resettable_stranger),
    *(narrowed, with_fewer_heads, resized, resized_by_hand, tied, with_another_scale),
)


SHORTENING: Final = frozenset({sliced, without_the_first, without_the_last})
"""Edits of which two leave blocks that a third has nothing to change in."""


def edited(edits: Sequence[Edit], n_blocks: int = 5) -> LlamaForCausalLM:
    """Return a model after several edits, one after the other."""
    hf = tiny(n_blocks)
    for edit in edits:
        edit(hf)
    return hf.eval()


def stacked(order: Sequence[int]) -> LlamaForCausalLM:
    """Return a model of copies of blocks, in an order, whose configuration counts them; their numbers are stale."""
    hf = tiny(max(order) + 1)
    hf.model.layers = nn.ModuleList([copy.deepcopy(hf.model.layers[block]) for block in order])
    hf.config.num_hidden_layers = len(order)
    return hf


def _rows(layer: nn.Linear, count: int) -> nn.Linear:
    return _linear(layer.weight[:count])


def _columns(layer: nn.Linear, count: int) -> nn.Linear:
    return _linear(layer.weight[:, :count])


def _linear(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight = nn.Parameter(weight.detach().clone())
    return layer

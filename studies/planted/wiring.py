"""Llama blocks with weights set by hand: what a channel of the stream means, and the parts blocks are wired from.

A stream h consists of *registers*, groups of channels that hold one of 16 symbols as a unit vector, and a channel
``ONE`` that is never written and serves as bias and as the query and key of attention. Blocks see norm(h) =
h·√WIDTH/‖h‖, so every part below is told ‖h‖² (``energy``) and undoes the factor. Weights that are not set are zero:
such a part runs and adds exactly nothing.

Shapes: N neurons, D channels (``WIDTH``), S symbols, V tokens (``VOCABULARY``).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from bathyscope_lab.models import UniversalTransformerConfig, UniversalTransformerForCausalLM
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

Planted = LlamaForCausalLM | UniversalTransformerForCausalLM
"""Their blocks are the same, module for module, with the same names."""

SYMBOLS = 16
VOCABULARY = 64
WIDTH = 64
NEURONS = 320
CONTEXT = 64
THETA = 10000.0
FIRST = 0
"""The token that all prompts begin with."""

ANSWER = slice(0, 16)
"""The register that the unembedding reads in most models; token v enters with the symbol v mod 16."""
NEIGHBOUR = slice(16, 32)
"""What attention has fetched from the token before; empty between blocks of a chain."""
ONE = 32
SECOND = slice(33, 49)
"""A second register. Channels from here on are used by some models only."""

_OWN_LOGIT = 6.0
"""By how much a symbol raises the tokens that carry it, over logits of unit spread."""
_DRIVE = 150.0
"""Gate of a neuron that is on; silu is the identity there and, in float32, exactly zero at its negative."""
_SHARPNESS = 40.0
"""By how much the score of the token before exceeds all others, so that attention is one-hot."""

# weights undo the norm's factor, which the usual 1e-6 would change with the size of the stream
_EPSILON = 1e-12
_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": NEURONS,
    "num_attention_heads": 1,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": FIRST,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def blank_model(blocks: int, seed: int, *, one: float = 1.0) -> LlamaForCausalLM:
    """A Llama in float32 whose blocks add nothing: an embedding of symbols and a readout of ``ANSWER``, no more.

    Args:
        seed: of the readout.
        one: the value of the channel ``ONE`` in every token.
    """
    config = LlamaConfig(
        **_SHAPE,
        num_hidden_layers=blocks,
        num_key_value_heads=1,
        rms_norm_eps=_EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config).eval()
    _blank(model, seed, one)
    return model


def blank_universal(steps: int, seed: int, *, one: float = 1.0) -> UniversalTransformerForCausalLM:
    """The same with a single block that is run ``steps`` times: whatever is wired in block 0 is in every step."""
    config = UniversalTransformerConfig(
        **_SHAPE,
        group_size=1,
        repeats=steps,
        norm="rms_norm",
        norm_eps=_EPSILON,
        rotary_share=1.0,
        rope_theta=THETA,
        hidden_act="silu",
        gated_mlp=True,
    )
    with torch.random.fork_rng(devices=[]):
        model = UniversalTransformerForCausalLM(config).eval()
    _blank(model, seed, one)
    return model


@torch.no_grad()
def _blank(model: Planted, seed: int, one: float) -> None:
    for block in model.model.layers:
        for weight in block.parameters():
            if weight.ndim == 2:
                weight.zero_()
    embedding_VD = torch.zeros(VOCABULARY, WIDTH)
    embedding_VD[:, ANSWER] = symbols_of_tokens()
    embedding_VD[:, ONE] = one
    model.model.embed_tokens.weight.copy_(embedding_VD)
    read_out(model, ANSWER, seed)


def symbols_of_tokens() -> Tensor:
    """The symbol of every token as a unit vector, [V, S]."""
    return torch.eye(SYMBOLS).repeat(VOCABULARY // SYMBOLS, 1)


@torch.no_grad()
def read_out(model: Planted, register: slice, seed: int, *, energy: float = 2.0) -> None:
    """Lets the unembedding read one register and nothing else.

    A symbol predicts the four tokens that carry it, with different probabilities that sum to about 0.97, so that two
    symbols predict nearly disjoint distributions.

    Args:
        energy: ‖h_L‖² for which a symbol of unit size gives these logits.
    """
    noise_VS = torch.randn(VOCABULARY, SYMBOLS, generator=torch.Generator().manual_seed(seed))
    model.lm_head.weight.zero_()
    model.lm_head.weight[:, register] = (_OWN_LOGIT * symbols_of_tokens() + noise_VS) / _factor(energy)


@torch.no_grad()
def look_back(
    model: Planted,
    block: int,
    source: slice,
    target: slice,
    *,
    energy: float = 2.0,
    one: float = 1.0,
    through_SS: Tensor | None = None,
) -> None:
    """Attention that adds the register ``source`` of the token before to ``target``; token 0 sees itself.

    Queries and keys are the channel ``ONE``; the key is turned by one position, so that rotary scores are largest
    where the key stands one token back.

    Args:
        through_SS: what the register is multiplied by on the way; None = the identity.
    """
    attention = model.model.layers[block].self_attn
    # what a pair of entries is turned by from one token to the next, as the models compute it
    angles = 1.0 / THETA ** (torch.arange(0, WIDTH, 2) / WIDTH)
    half = len(angles)
    # one token more or less turns all pairs; farther tokens score lower still
    gap = float((1 - angles.cos()).sum())
    size = math.sqrt(_SHARPNESS * math.sqrt(2 * half) / gap) / (_factor(energy) * one)
    attention.q_proj.weight[:half, ONE] = size
    attention.k_proj.weight[:half, ONE] = size * angles.cos()
    attention.k_proj.weight[half:, ONE] = size * angles.sin()
    through_SS = torch.eye(SYMBOLS) if through_SS is None else through_SS
    attention.v_proj.weight[:SYMBOLS, source] = torch.eye(SYMBOLS) / _factor(energy)
    attention.o_proj.weight[target, :SYMBOLS] = through_SS


@torch.no_grad()
def add_detectors(
    model: Planted,
    block: int,
    detect_ND: Tensor,
    write_ND: Tensor,
    *,
    energy: float = 2.0,
    carrier: int = ONE,
    one: float = 1.0,
    first: int = 0,
) -> None:
    """Neurons that each add their row of ``write_ND`` to the stream where they are on.

    Args:
        detect_ND: neuron n is on where detect_ND[n]·h is ½, and off where it is −½ or less.
        carrier: a channel that is ``one`` where neurons are on; what they write is in proportion to it.
        first: number of the first neuron that is used.
    """
    mlp = model.model.layers[block].mlp
    used = slice(first, first + len(detect_ND))
    mlp.gate_proj.weight[used] = detect_ND * 2 * _DRIVE / _factor(energy)
    mlp.up_proj.weight[used, carrier] = 1 / (_factor(energy) * one)
    mlp.down_proj.weight[:, used] = write_ND.T / _DRIVE


@torch.no_grad()
def add_linear(
    model: Planted,
    block: int,
    matrix_DD: Tensor,
    *,
    energy: float = 2.0,
    one: float = 1.0,
    first: int = 0,
) -> None:
    """Neurons that are always on and add matrix_DD·h to the stream (exactly linear where ‖h‖² = ``energy``)."""
    mlp = model.model.layers[block].mlp
    used = slice(first, first + WIDTH)
    mlp.gate_proj.weight[used, ONE] = _DRIVE / (_factor(energy) * one)
    mlp.up_proj.weight[used] = torch.eye(WIDTH) / _factor(energy)
    mlp.down_proj.weight[:, used] = matrix_DD / _DRIVE


def _factor(energy: float) -> float:
    """What the norm multiplies a stream of ‖h‖² = ``energy`` by."""
    return math.sqrt(WIDTH / energy)

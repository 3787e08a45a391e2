"""The model of a recipe, with freshly drawn weights."""

from __future__ import annotations

import math

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bathyscope.lab.recipe import ModelShape

INITIAL_STD = 0.02


def build_model(shape: ModelShape, seed: int, bos_id: int, eos_id: int) -> LlamaForCausalLM:
    """A Llama in float32 whose weights depend on ``seed`` alone.

    What each block adds to the residual stream starts 1/√(2·blocks) smaller, so that the stream's size at
    the readout does not grow with depth.
    """
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.mlp_width,
        num_hidden_layers=shape.blocks,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        initializer_range=INITIAL_STD,
        bos_token_id=bos_id,
        eos_token_id=eos_id,
        pad_token_id=eos_id,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for block in model.model.layers:
            for written in (block.self_attn.o_proj.weight, block.mlp.down_proj.weight):
                written.normal_(0.0, INITIAL_STD / math.sqrt(2 * shape.blocks))
    return model

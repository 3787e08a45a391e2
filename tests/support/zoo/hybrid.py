"""Decoders whose token mixers are convolutions, linear attention or recurrent states, wholly or in part."""

from __future__ import annotations

from typing import Any

from support.zoo.entry import GROUPED, HEAD, TIED, WIDTH, WINDOW, Entry, config
from support.zoo.moe import EXPERTS
from support.zoo.postnorm import GRANITE

LINEAR: dict[str, Any] = {
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": [
        "linear_attention",
        "full_attention",
        "linear_attention",
        "linear_attention",
        "full_attention",
    ],
}
CONVOLUTIONS: dict[str, Any] = {
    "layer_types": ["conv", "full_attention", "conv", "conv", "full_attention"],
    "conv_L_cache": 3,
}
MAMBA: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 8,
}

ENTRIES = (
    Entry(
        "qwen3_next",
        "qwen3_next",
        config("qwen3_next", GROUPED, HEAD, EXPERTS, LINEAR, shared_expert_intermediate_size=32),
        "gated delta rule and attention, experts",
        tails=None,
    ),
    Entry(
        "qwen3_5",
        "qwen3_next",
        config("qwen3_5_text", GROUPED, HEAD, LINEAR),
        "gated delta rule and attention",
        tails=None,
    ),
    Entry("lfm2", "lfm2", config("lfm2", GROUPED, TIED, CONVOLUTIONS), "short convolutions and attention"),
    Entry(
        "lfm2_moe",
        "lfm2",
        config("lfm2_moe", GROUPED, TIED, CONVOLUTIONS, EXPERTS, num_dense_layers=2),
        "short convolutions and attention, experts",
    ),
    Entry(
        "jamba",
        "jamba",
        config(
            "jamba",
            GROUPED,
            num_experts=4,
            mamba_d_state=8,
            mamba_dt_rank=8,
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
        ),
        "Mamba and attention, experts",
        tails=False,
    ),
    Entry(
        "bamba",
        "jamba",
        config("bamba", GROUPED, MAMBA, attn_layer_indices=[1, 4]),
        "Mamba-2 and attention",
        tails=None,
    ),
    Entry(
        "granitemoehybrid",
        "granitemoehybrid",
        config(
            "granitemoehybrid",
            GROUPED,
            GRANITE,
            MAMBA,
            num_local_experts=4,
            num_experts_per_tok=2,
            shared_intermediate_size=48,
            layer_types=["mamba", "attention", "mamba", "mamba", "attention"],
            position_embedding_type="rope",
        ),
        "Mamba-2 and attention, residual multiplier",
        tails=None,
    ),
    Entry(
        "falcon_h1",
        "falcon_h1",
        config(
            "falcon_h1",
            GROUPED,
            HEAD,
            MAMBA,
            mamba_d_ssm=128,
            ssm_out_multiplier=0.6,
            attention_out_multiplier=1.4,
            lm_head_multiplier=0.5,
            embedding_multiplier=2.0,
        ),
        "Mamba-2 and attention side by side",
        tails=None,
    ),
    Entry(
        "mamba",
        "mamba",
        config(
            "mamba",
            state_size=8,
            expand=2,
            intermediate_size=...,
            num_attention_heads=...,
            max_position_embeddings=...,
        ),
        "one recurrent mixer a block",
        parts=False,
        tails=False,
    ),
    Entry(
        "mamba2",
        "mamba",
        config(
            "mamba2",
            state_size=8,
            expand=2,
            num_heads=8,
            head_dim=16,
            n_groups=1,
            chunk_size=8,
            intermediate_size=...,
            num_attention_heads=...,
            max_position_embeddings=...,
        ),
        "one recurrent mixer a block",
        parts=False,
        tails=None,
    ),
    Entry(
        "recurrent_gemma",
        "recurrent_gemma",
        config(
            "recurrent_gemma",
            GROUPED,
            TIED,
            lru_width=WIDTH,
            attention_window_size=WINDOW,
            logits_soft_cap=3.0,
            block_types=["recurrent", "attention"],
        ),
        "gated recurrence and local attention, softcap",
        tails=False,
    ),
)

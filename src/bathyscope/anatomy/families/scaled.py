"""Contributions times a constant before they are added."""

from __future__ import annotations

from functools import partial

from bathyscope.anatomy.family import Family, Site

_scaled = partial(Site, scale="residual_multiplier")

FAMILIES = (
    # Granite: contributions, embedding and logits each times a constant. h_0 is the embedding times
    # embedding_multiplier.
    Family(
        "granite",
        ("granite", "granite_swa"),
        attention=_scaled("self_attn"),
        mlp=_scaled("mlp"),
        logit_divisor="logits_scaling",
    ),
    # Granite with experts, and with a shared MLP beside them. h_0 is the embedding times embedding_multiplier.
    Family(
        "granitemoe",
        ("granitemoe", "granitemoe_swa", "granitemoeshared"),
        attention=_scaled("self_attn"),
        mlp=_scaled("block_sparse_moe", also=(_scaled("shared_mlp"),)),
        logit_divisor="logits_scaling",
    ),
    # Granite 4: state-space or attention mixers, a shared MLP and, in some models, experts. h_0 is the embedding times
    # embedding_multiplier.
    Family(
        "granitemoehybrid",
        ("granitemoehybrid",),
        attention=_scaled(("self_attn", "mamba")),
        mlp=_scaled("shared_mlp", also=(_scaled("block_sparse_moe"),)),
        logit_divisor="logits_scaling",
    ),
    # HyperCLOVA X: norms on the outputs, times a constant. h_0 is the embedding times embedding_multiplier. Unlike
    # Granite's, logits_scaling multiplies.
    Family(
        "hyperclovax",
        ("hyperclovax",),
        attention=_scaled("post_norm1"),
        mlp=_scaled("post_norm2"),
        logit_multiplier="logits_scaling",
    ),
    # MiniCPM 3: contributions times a depth-dependent scale, logits divided. The normed state is divided before the
    # head, which is the same as dividing the logits. h_0 is the embedding times scale_emb.
    Family(
        "minicpm3",
        ("minicpm3",),
        attention=Site("self_attn", scale="residual_scale"),
        mlp=Site("mlp", scale="residual_scale"),
        logit_divisor="logits_scaling",
    ),
    # Falcon-H1: attention and a state-space mixer side by side in every block, each times a constant. h_0 is the
    # embedding times embedding_multiplier.
    Family(
        "falcon_h1",
        ("falcon_h1",),
        final_norm="model.final_layernorm",
        attention=Site("self_attn", scale="attn_out_multiplier", also=(Site("mamba", scale="ssm_out_multiplier"),)),
        mlp=Site("feed_forward"),
        logit_multiplier="lm_head_multiplier",
    ),
)

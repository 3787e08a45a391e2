"""Contributions times a constant before they are added."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILIES = (
    # Granite: contributions, embedding and logits each times a constant.
    Family(
        "granite",
        ("granite", "granite_swa"),
        attention=Site("self_attn", scale="residual_multiplier"),
        mlp=Site("mlp", scale="residual_multiplier"),
        logit_divisor="logits_scaling",
        notes="h_0 is the embedding times embedding_multiplier.",
    ),
    # Granite with experts, and with a shared MLP beside them.
    Family(
        "granitemoe",
        ("granitemoe", "granitemoe_swa", "granitemoeshared"),
        attention=Site("self_attn", scale="residual_multiplier"),
        mlp=Site(
            "block_sparse_moe", scale="residual_multiplier", also=(Site("shared_mlp", scale="residual_multiplier"),)
        ),
        logit_divisor="logits_scaling",
        notes="h_0 is the embedding times embedding_multiplier.",
    ),
    # Granite 4: state-space or attention mixers, a shared MLP and, in some models, experts.
    Family(
        "granitemoehybrid",
        ("granitemoehybrid",),
        attention=Site(("self_attn", "mamba"), scale="residual_multiplier"),
        mlp=Site(
            "shared_mlp", scale="residual_multiplier", also=(Site("block_sparse_moe", scale="residual_multiplier"),)
        ),
        logit_divisor="logits_scaling",
        notes="h_0 is the embedding times embedding_multiplier.",
    ),
    # HyperCLOVA X: norms on the outputs, times a constant.
    Family(
        "hyperclovax",
        ("hyperclovax",),
        attention=Site("post_norm1", scale="residual_multiplier"),
        mlp=Site("post_norm2", scale="residual_multiplier"),
        logit_multiplier="logits_scaling",
        notes="h_0 is the embedding times embedding_multiplier. Unlike Granite's, logits_scaling multiplies.",
    ),
    # MiniCPM 3: contributions times a depth-dependent scale, logits divided.
    Family(
        "minicpm3",
        ("minicpm3",),
        attention=Site("self_attn", scale="residual_scale"),
        mlp=Site("mlp", scale="residual_scale"),
        logit_divisor="logits_scaling",
        notes="The normed state is divided before the head, which is the same as dividing the logits. "
        "h_0 is the embedding times scale_emb.",
    ),
    # Falcon-H1: attention and a state-space mixer side by side in every block, each times a constant.
    Family(
        "falcon_h1",
        ("falcon_h1",),
        final_norm="model.final_layernorm",
        attention=Site("self_attn", scale="attn_out_multiplier", also=(Site("mamba", scale="ssm_out_multiplier"),)),
        mlp=Site("feed_forward"),
        logit_multiplier="lm_head_multiplier",
        notes="h_0 is the embedding times embedding_multiplier.",
    ),
)

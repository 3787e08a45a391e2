"""Granite 4: state-space or attention mixers, a shared MLP and, in some models, experts."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="granitemoehybrid",
    model_types=("granitemoehybrid",),
    attention=Site(("self_attn", "mamba"), scale="residual_multiplier"),
    mlp=Site(
        "shared_mlp",
        scale="residual_multiplier",
        also=(Site("block_sparse_moe", scale="residual_multiplier"),),
    ),
    logit_divisor="logits_scaling",
    notes="h_0 is the embedding times embedding_multiplier.",
)

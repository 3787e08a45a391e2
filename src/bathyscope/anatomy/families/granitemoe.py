"""Granite with experts, and with a shared MLP beside them."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="granitemoe",
    model_types=("granitemoe", "granitemoe_swa", "granitemoeshared"),
    attention=Site("self_attn", scale="residual_multiplier"),
    mlp=Site(
        "block_sparse_moe",
        scale="residual_multiplier",
        also=(Site("shared_mlp", scale="residual_multiplier"),),
    ),
    logit_divisor="logits_scaling",
    notes="h_0 is the embedding times embedding_multiplier.",
)

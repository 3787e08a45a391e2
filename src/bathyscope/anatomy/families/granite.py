"""Granite: contributions, embedding and logits each times a constant."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="granite",
    model_types=("granite", "granite_swa"),
    attention=Site("self_attn", scale="residual_multiplier"),
    mlp=Site("mlp", scale="residual_multiplier"),
    logit_divisor="logits_scaling",
    notes="h_0 is the embedding times embedding_multiplier.",
)

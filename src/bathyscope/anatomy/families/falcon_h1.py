"""Falcon-H1: attention and a state-space mixer side by side in every block, each times a constant."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="falcon_h1",
    model_types=("falcon_h1",),
    final_norm="model.final_layernorm",
    attention=Site("self_attn", scale="attn_out_multiplier", also=(Site("mamba", scale="ssm_out_multiplier"),)),
    mlp=Site("feed_forward"),
    logit_multiplier="lm_head_multiplier",
    notes="h_0 is the embedding times embedding_multiplier.",
)

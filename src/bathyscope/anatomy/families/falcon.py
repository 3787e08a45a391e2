"""Falcon: parallel or serial residual, by a flag of the configuration."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="falcon",
    model_types=("falcon",),
    blocks="transformer.h",
    final_norm="transformer.ln_f",
    attention=Site("self_attention"),
    mlp=Site("mlp"),
    parallel="parallel_attn",
    notes="The block adds the attention's output to the MLP's in place: clone outputs when they are read.",
)

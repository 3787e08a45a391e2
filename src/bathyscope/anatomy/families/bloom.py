"""BLOOM: both modules return states to which the residual is already added."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="bloom",
    model_types=("bloom",),
    blocks="transformer.h",
    final_norm="transformer.ln_f",
    attention=Site("self_attention", minus="residual"),
    mlp=Site("mlp", minus="residual"),
    parts_when=("apply_residual_connection_post_layernorm", False),
    notes="h_0 is the normed embedding; positions enter through ALiBi.",
)

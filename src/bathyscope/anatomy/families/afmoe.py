"""AFMoE (Trinity): norms on inputs and outputs, experts."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="afmoe",
    model_types=("afmoe",),
    attention=Site("post_attention_layernorm"),
    mlp=Site("post_mlp_layernorm"),
)

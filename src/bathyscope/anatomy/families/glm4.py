"""GLM 4: norms on inputs and outputs, under names of its own."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="glm4",
    model_types=("glm4", "kolibri1"),
    attention=Site("post_self_attn_layernorm"),
    mlp=Site("post_mlp_layernorm"),
)

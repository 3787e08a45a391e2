"""JetMoE: experts in the attention too."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="jetmoe",
    model_types=("jetmoe",),
    attention=Site("self_attention"),
)

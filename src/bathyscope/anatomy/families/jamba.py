"""Jamba and Bamba: state-space mixers in most blocks, attention in the rest."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="jamba",
    model_types=("bamba", "jamba"),
    final_norm="model.final_layernorm",
    attention=Site(("self_attn", "mamba")),
    mlp=Site("feed_forward"),
)

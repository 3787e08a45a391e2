"""LFM2: short convolutions in most blocks, attention in the rest."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="lfm2",
    model_types=("lfm2", "lfm2_moe"),
    final_norm="model.embedding_norm",
    attention=Site(("self_attn", "conv")),
    mlp=Site("feed_forward"),
)

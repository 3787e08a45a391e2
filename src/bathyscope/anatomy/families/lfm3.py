"""LFM3: LFM2 with norms on the outputs."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="lfm3",
    model_types=("lfm3",),
    final_norm="model.embedding_norm",
    attention=Site("post_operator_norm"),
    mlp=Site("post_ffn_norm"),
)

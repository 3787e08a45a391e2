"""DBRX: the attention is nested in a module that also holds both norms."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="dbrx",
    model_types=("dbrx",),
    blocks="transformer.blocks",
    final_norm="transformer.norm_f",
    attention=Site("norm_attn_norm.attn"),
    mlp=Site("ffn"),
)

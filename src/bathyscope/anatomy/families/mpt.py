"""MPT: the MLP returns a state to which the residual is already added."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="mpt",
    model_types=("mpt",),
    blocks="transformer.blocks",
    final_norm="transformer.norm_f",
    attention=Site("attn"),
    mlp=Site("ffn", minus="residual"),
    notes="Positions enter through ALiBi; in its masks True means masked.",
)

"""Mamba, Mamba-2 and Falcon-Mamba: one recurrent mixer a block and no MLP."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="mamba",
    model_types=("falcon_mamba", "mamba", "mamba2"),
    blocks="backbone.layers",
    final_norm="backbone.norm_f",
    attention=None,
    mlp=None,
    notes="The mixer's contribution is the block's, so there are no parts to tell apart.",
)

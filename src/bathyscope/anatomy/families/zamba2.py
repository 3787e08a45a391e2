"""Zamba 2: state-space blocks, some of them with attention that several blocks share."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="zamba2",
    model_types=("zamba2",),
    final_norm="model.final_layernorm",
    attention=None,
    mlp=None,
    notes="The shared attention reaches the stream only through the mixer's input, so the mixer's "
    "contribution is the block's. Every block also reads h_0.",
)

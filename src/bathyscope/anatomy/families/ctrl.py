"""CTRL: the layout of GPT-2 under older names."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="ctrl",
    model_types=("ctrl",),
    blocks="transformer.h",
    final_norm="transformer.layernorm",
    attention=Site("multi_head_attention"),
    mlp=Site("ffn"),
    notes="h_0 includes sinusoidal positions. The head has a bias.",
)

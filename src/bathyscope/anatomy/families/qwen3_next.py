"""Qwen3-Next and Qwen3.5: gated delta-rule mixers in most blocks, attention in the rest."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="qwen3_next",
    model_types=("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
    attention=Site(("self_attn", "linear_attn")),
    notes="Multimodal checkpoints load as their language model.",
)

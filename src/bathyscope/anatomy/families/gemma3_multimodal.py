"""Gemma 3 with its image encoder: the language model sits one level deeper."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gemma3_multimodal",
    model_types=("gemma3",),
    blocks="model.language_model.layers",
    final_norm="model.language_model.norm",
    attention=Site("post_attention_layernorm"),
    mlp=Site("post_feedforward_layernorm"),
    notes="Measured on text alone. Unlike the language model by itself, this one never applies a softcap.",
)

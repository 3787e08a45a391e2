"""Gemma 4 with its encoders: the language model sits one level deeper."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gemma4_multimodal",
    model_types=("gemma4", "gemma4_unified"),
    blocks="model.language_model.layers",
    final_norm="model.language_model.norm",
    attention=Site("post_attention_layernorm"),
    mlp=Site("post_feedforward_layernorm"),
    others=(Site("post_per_layer_input_norm"),),
    block_scale="layer_scalar",
    logit_softcap="final_logit_softcapping",
    notes="Measured on text alone; attributes of the configuration are those of its text part.",
)

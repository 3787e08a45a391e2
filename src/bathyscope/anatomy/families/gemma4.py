"""Gemma 4: a third contribution from per-layer embeddings, and a scalar on the whole block."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gemma4",
    model_types=("gemma4_text", "gemma4_unified_text"),
    attention=Site("post_attention_layernorm"),
    mlp=Site("post_feedforward_layernorm"),
    others=(Site("post_per_layer_input_norm"),),
    block_scale="layer_scalar",
    logit_softcap="final_logit_softcapping",
    notes="The last blocks take keys and values that earlier blocks leave in a dictionary. The block scales "
    "its output in place: clone outputs when they are read.",
)

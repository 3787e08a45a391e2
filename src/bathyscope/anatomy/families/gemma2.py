"""Gemma 2 and 3: norms on inputs and outputs, softcapped logits where the configuration says so."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gemma2",
    model_types=("gemma2", "gemma3_text"),
    attention=Site("post_attention_layernorm"),
    mlp=Site("post_feedforward_layernorm"),
    logit_softcap="final_logit_softcapping",
    notes="Norm weights are stored as w of (1 + w). The embedding module itself scales; h_0 is its output.",
)

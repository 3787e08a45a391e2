"""ModernBERT's decoder: a dense layer with a norm between the final norm and the unembedding."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="modernbert_decoder",
    model_types=("modernbert-decoder",),
    final_norm="model.final_norm",
    attention=Site("attn"),
    projection="lm_head",
    head="decoder",
    notes="What the model calls lm_head is the transformation before its unembedding.",
)

"""RecurrentGemma: gated linear recurrences in most blocks, local attention in the rest."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="recurrent_gemma",
    model_types=("recurrent_gemma",),
    final_norm="model.final_norm",
    attention=Site("temporal_block"),
    mlp=Site("mlp_block"),
    logit_softcap="logits_soft_cap",
    notes="h_0 is the embedding times a constant.",
)

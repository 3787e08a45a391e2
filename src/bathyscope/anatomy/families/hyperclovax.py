"""HyperCLOVA X: norms on the outputs, times a constant."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="hyperclovax",
    model_types=("hyperclovax",),
    attention=Site("post_norm1", scale="residual_multiplier"),
    mlp=Site("post_norm2", scale="residual_multiplier"),
    logit_multiplier="logits_scaling",
    notes="h_0 is the embedding times embedding_multiplier. Unlike Granite's, logits_scaling multiplies.",
)

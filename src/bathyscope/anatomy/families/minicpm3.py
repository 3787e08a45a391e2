"""MiniCPM 3: contributions times a depth-dependent scale, logits divided."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="minicpm3",
    model_types=("minicpm3",),
    attention=Site("self_attn", scale="residual_scale"),
    mlp=Site("mlp", scale="residual_scale"),
    logit_divisor="logits_scaling",
    notes="The normed state is divided before the head, which is the same as dividing the logits. "
    "h_0 is the embedding times scale_emb.",
)

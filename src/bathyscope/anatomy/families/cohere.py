"""Cohere (Command): parallel residual and scaled logits."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="cohere",
    model_types=("cohere", "cohere2", "cohere2_moe"),
    parallel=True,
    logit_multiplier="logit_scale",
)

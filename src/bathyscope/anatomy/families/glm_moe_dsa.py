"""GLM with sparse attention: refused, attended positions travel beside the residual stream."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="glm_moe_dsa",
    model_types=("glm_moe_dsa",),
    refused="its blocks hand the attended positions to the next block beside the residual stream, so the "
    "stream alone does not determine what follows",
)

"""Doge: the residual itself is multiplied by a learned vector at each sum."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="doge",
    model_types=("doge",),
    attention=None,
    mlp=None,
    notes="h_{l+1} − h_l is not a sum of module outputs; measures of whole blocks are available.",
)

"""Zaya: refused, router states travel beside the residual stream."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="zaya",
    model_types=("zaya",),
    refused="its blocks hand router states to the next block beside the residual stream, so the stream "
    "alone does not determine what follows",
)

"""Inkling 2: refused, blocks read the states of earlier blocks."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="inkling2",
    model_types=(
        "inkling2",
        "inkling2_text",
    ),
    refused="its blocks attend over the states of earlier blocks instead of adding to one residual stream",
)

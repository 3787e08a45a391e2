"""Gemma 3n: refused, several residual streams."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="gemma3n",
    model_types=(
        "gemma3n",
        "gemma3n_text",
    ),
    refused="its blocks mix several residual streams (AltUp), so no single stream exists whose "
    "contributions could be measured",
)

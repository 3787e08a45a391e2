"""Persimmon: the Llama block under another name for the final norm."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="persimmon",
    model_types=("persimmon",),
    final_norm="model.final_layernorm",
)

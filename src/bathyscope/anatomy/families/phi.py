"""Phi: attention and MLP both read the block's normed input."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="phi",
    model_types=("phi",),
    final_norm="model.final_layernorm",
    parallel=True,
    notes="One dropout module serves both parts, so it is no site. The head has a bias.",
)

"""Nemotron-H: every block holds one mixer, be it state space, attention, MLP or experts."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="nemotron_h",
    model_types=("nemotron_h",),
    final_norm="model.norm_f",
    attention=None,
    mlp=None,
    notes="The mixer's contribution is the block's, so there are no parts to tell apart.",
)

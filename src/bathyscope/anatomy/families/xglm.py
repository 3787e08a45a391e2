"""XGLM: no MLP module, so the MLP's contribution is the output of its second matrix."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="xglm",
    model_types=("xglm",),
    final_norm="model.layer_norm",
    mlp=Site("fc2"),
    notes="h_0 includes sinusoidal positions.",
)

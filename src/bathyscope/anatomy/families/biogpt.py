"""BioGPT: no MLP module, so the MLP's contribution is the output of its second matrix."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="biogpt",
    model_types=("biogpt",),
    blocks="biogpt.layers",
    final_norm="biogpt.layer_norm",
    mlp=Site("fc2"),
    head="output_projection",
    notes="h_0 includes the position embedding.",
)

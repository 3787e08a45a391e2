"""GPT-NeoX (Pythia): parallel or serial residual, by a flag of the configuration."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gpt_neox",
    model_types=("gpt_neox",),
    blocks="gpt_neox.layers",
    final_norm="gpt_neox.final_layer_norm",
    attention=Site("attention"),
    mlp=Site("mlp"),
    parallel="use_parallel_residual",
)

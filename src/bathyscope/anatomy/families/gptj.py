"""GPT-J and CodeGen: attention and MLP both read the block's normed input."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gptj",
    model_types=("codegen", "gptj"),
    blocks="transformer.h",
    final_norm="transformer.ln_f",
    attention=Site("attn"),
    mlp=Site("mlp"),
    parallel=True,
    notes="The head has a bias.",
)

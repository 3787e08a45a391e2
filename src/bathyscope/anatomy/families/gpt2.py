"""GPT-2 and its direct descendants: learned positions, one module each for attention and MLP."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="gpt2",
    model_types=("gpt2", "gpt_bigcode", "gpt_neo"),
    blocks="transformer.h",
    final_norm="transformer.ln_f",
    attention=Site("attn"),
    mlp=Site("mlp"),
    notes="h_0 includes the position embedding. GPT-2's matrices are Conv1D, stored [in, out].",
)

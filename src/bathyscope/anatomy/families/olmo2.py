"""OLMo 2 and relatives: no norms on the inputs, norms on the outputs."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="olmo2",
    model_types=("exaone4", "flex_olmo", "olmo2", "olmo3"),
    attention=Site("post_attention_layernorm"),
    mlp=Site("post_feedforward_layernorm"),
    notes="A contribution is the norm's output, since that is what is added.",
)

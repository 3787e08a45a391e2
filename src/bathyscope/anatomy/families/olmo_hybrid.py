"""OLMo Hybrid: attention blocks with norms on the outputs, linear blocks with norms on the inputs."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="olmo_hybrid",
    model_types=("olmo_hybrid",),
    attention=Site(("linear_attn", "post_attention_layernorm")),
    mlp=Site(("post_feedforward_layernorm", "mlp")),
    notes="Linear blocks have a post_attention_layernorm too, but there it is the MLP's input norm.",
)

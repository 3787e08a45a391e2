"""OPT: no MLP module, so the MLP's contribution is the output of its second matrix."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="opt",
    model_types=("opt",),
    blocks="model.decoder.layers",
    final_norm="model.decoder.final_layer_norm",
    mlp=Site("fc2"),
    parts_when=("do_layer_norm_before", True),
    projection="model.decoder.project_out",
    notes="fc2 returns flat [batch · tokens, width] outputs. h_0 includes the position embedding. The 350m "
    "checkpoint norms after the sum, has no final norm and projects before the head.",
)

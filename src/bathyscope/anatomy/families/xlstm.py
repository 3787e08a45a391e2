"""xLSTM: a matrix-memory layer and a gated feed-forward layer."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="xlstm",
    model_types=("xlstm",),
    blocks="backbone.blocks",
    final_norm="backbone.out_norm",
    attention=Site("mlstm_layer"),
    mlp=Site("ffn"),
    logit_softcap="output_logit_soft_cap",
)

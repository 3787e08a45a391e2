"""GPT-NeoX-Japanese: the attention's bias is added outside every module."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="gpt_neox_japanese",
    model_types=("gpt_neox_japanese",),
    blocks="gpt_neox_japanese.layers",
    final_norm="gpt_neox_japanese.final_layer_norm",
    attention=None,
    mlp=None,
    head="embed_out",
    notes="The last block's attention bias is added to the residual stream by a plain function, so no module "
    "returns the attention's contribution; measures of whole blocks are available.",
)

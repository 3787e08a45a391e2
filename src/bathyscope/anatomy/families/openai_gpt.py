"""The first GPT: norms after each sum, no final norm."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="openai_gpt",
    model_types=("openai-gpt",),
    blocks="transformer.h",
    final_norm=None,
    attention=None,
    mlp=None,
    notes="The stream is normed after each sum, so the parts' contributions do not add up to the block's; "
    "measures of whole blocks are available.",
)

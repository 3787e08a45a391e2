"""Llama 4: the MLP or the experts live in ``feed_forward``."""

from __future__ import annotations

from bathyscope.anatomy.family import Family, Site

FAMILY = Family(
    name="llama4",
    model_types=("llama4", "llama4_text"),
    mlp=Site("feed_forward"),
    notes="Multimodal checkpoints load as their language model. The experts return flat "
    "[batch · tokens, width] outputs, in a tuple with the router's scores.",
)

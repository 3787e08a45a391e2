"""A chain, then blocks whose contributions are a thousandth of the stream."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import blank_model

BLOCKS, STEPS = 12, 5
SEED = 2
_INNER, _OUTER = 0.15, 1e-5
"""Spread of the weights that read from the stream, and of those that write to it."""


def build() -> LlamaForCausalLM:
    """Blocks 5 … 11 have random weights, with tiny ones where they write to the stream."""
    model = blank_model(BLOCKS, SEED)
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    draw = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for block in model.model.layers[STEPS:]:
            for name, weight in block.named_parameters():
                if weight.ndim == 2:
                    spread = _OUTER if name.split(".")[-2] in ("o_proj", "down_proj") else _INNER
                    weight.copy_(spread * torch.randn(weight.shape, generator=draw))
    return model


NEAR_IDENTITY = Construction(
    "near_identity",
    "A chain of 5 steps, then 7 random blocks whose contributions are about a thousandth of the stream.",
    chain_truth(BLOCKS, range(STEPS)),
    build,
    (
        fooled(
            "cosine",
            "interpolated_cosine",
            why="A cosine knows no size: a contribution of a thousandth of the stream has a sign like any other, and "
            "the last one that turns positive counts.",
        ),
        fooled(
            "skip_all",
            "skip_future",
            "skip_given_all",
            "skip_received_all",
            "skip_given_future",
            "skip_received_future",
            why="Effects are relative to the contribution that changes: a tiny one that depends on the stream changes "
            "as much as a large one. What the tiny ones give is rightly small; what they receive is not.",
        ),
        fooled(
            *CLEARED.measures,
            why=f"{CLEARED.why} And what is tiny is as easily changed as by a skip.",
        ),
    ),
)

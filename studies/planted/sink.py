"""A chain, and a massive activation at position 0 that no prediction depends on."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import ANSWER, FIRST, NEURONS, ONE, WIDTH, add_detectors, blank_model

BLOCKS, STEPS = 12, 5
SEED = 9
RISE, FALL = 1, 10
"""The blocks that write and remove the massive activation."""
SIZE = 300.0
MARK, MASSIVE = 33, 34
"""The channel in which the embedding marks the first token, and the one that grows."""


def build() -> LlamaForCausalLM:
    """The first token has no symbol, only a mark; block 1 (also a step) turns it to 300, block 10 takes 300 away."""
    model = blank_model(BLOCKS, SEED)
    with torch.no_grad():
        model.model.embed_tokens.weight[FIRST, ANSWER] = 0
        model.model.embed_tokens.weight[FIRST, MARK] = 1
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    risen_D, falls_D = torch.zeros(WIDTH), torch.zeros(WIDTH)
    risen_D[MARK], risen_D[ONE] = 1.0, -0.5
    falls_D[MASSIVE], falls_D[ONE] = 0.55 / SIZE, -0.05
    written_D = torch.zeros(WIDTH)
    written_D[MASSIVE] = SIZE
    add_detectors(model, RISE, risen_D[None], written_D[None], first=NEURONS - 1)
    # beside the massive channel all others are lost in the norm, so that it takes the place of ONE
    energy = SIZE**2 + 2
    add_detectors(model, FALL, falls_D[None], -written_D[None], energy=energy, carrier=MASSIVE, one=SIZE)
    return model


SINK = Construction(
    "sink",
    "A chain of 5 steps. At position 0, which has no symbol, block 1 also writes a channel of 300, and block 10 takes "
    "it away; the other blocks do nothing.",
    chain_truth(BLOCKS, range(STEPS)),
    build,
    (
        fooled(
            "cosine",
            "interpolated_cosine",
            why="Where block 10 takes its massive activation away, the cosine is −1 at one token in 24 and zero at all "
            "others: the mean is below zero, and turns behind it.",
        ),
        CLEARED,
        fooled(
            "contribution_norm",
            "relative_contribution",
            why="A mean over 24 tokens is one token's where that one has 300 and the others about 1. Without position "
            "0 (contribution_norm_rest) it is right.",
        ),
    ),
)

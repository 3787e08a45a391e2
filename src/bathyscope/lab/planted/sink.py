"""A chain, and a massive activation at position 0 that no prediction depends on."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from bathyscope.lab.planted.chain import add_step
from bathyscope.lab.planted.construction import Construction
from bathyscope.lab.planted.truth import chain_truth
from bathyscope.lab.planted.wiring import ANSWER, FIRST, NEURONS, ONE, WIDTH, add_detectors, blank_model

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
    marked_D, written_D = torch.zeros(WIDTH), torch.zeros(WIDTH)
    marked_D[MARK], marked_D[ONE], written_D[MASSIVE] = 1.0, -0.5, SIZE
    add_detectors(model, RISE, marked_D[None], written_D[None], first=NEURONS - 1)
    massive_D = torch.zeros(WIDTH)
    # all other channels are lost beside the massive one, which also stands for ONE
    massive_D[MASSIVE], massive_D[ONE] = 1.0, -0.5
    add_detectors(model, FALL, massive_D[None], -written_D[None], first=NEURONS - 1)
    return model


SINK = Construction(
    "sink",
    "",
    chain_truth(BLOCKS, range(STEPS)),
    build,
)

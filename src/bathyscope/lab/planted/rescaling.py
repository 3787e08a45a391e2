"""A chain, then blocks that multiply the stream and leave its direction as it is."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from bathyscope.lab.planted.chain import add_step
from bathyscope.lab.planted.construction import Construction
from bathyscope.lab.planted.truth import chain_truth
from bathyscope.lab.planted.wiring import WIDTH, add_linear, blank_model

BLOCKS, STEPS = 12, 5
GROWTH = 2.0
SEED = 3


def build() -> LlamaForCausalLM:
    """Each of the blocks 5 … 11 doubles the stream."""
    model = blank_model(BLOCKS, SEED)
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    for block in range(STEPS, BLOCKS):
        # a linear part sees the direction alone and always adds the same length, which has to grow with the stream
        length = (GROWTH - 1) * GROWTH ** (block - STEPS)
        add_linear(model, block, length * torch.eye(WIDTH))
    return model


NORM_GROWTH = GROWTH ** (BLOCKS - STEPS)

RESCALING = Construction(
    "rescaling",
    f"A chain of 5 steps, then 7 blocks that each double the stream: its norm grows {NORM_GROWTH:g}-fold.",
    chain_truth(BLOCKS, range(STEPS)),
    build,
)

"""Blocks that all have the same weights and bring the stream to a fixed point, half of the way with each step."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from bathyscope.lab.planted.construction import Construction
from bathyscope.lab.planted.truth import chain_truth
from bathyscope.lab.planted.wiring import (
    ANSWER,
    SECOND,
    SYMBOLS,
    WIDTH,
    add_linear,
    blank_model,
    look_back,
    read_out,
    symbols_of_tokens,
)

BLOCKS, STEPS = 12, 5
SEED = 7
RATE = 0.5
"""Share of the way to the fixed point that is left after a step."""
START = 8.0
"""Size of the wrong answer that the model begins with; the fixed point has about 1."""
ONE = 16.0
"""Large beside the answer, so that the norm's factor hardly changes while the answer shrinks."""
ENERGY = ONE**2 + 3


def build() -> LlamaForCausalLM:
    """x ← x + (1−RATE)·(own + 0.8·R·x[t−1] − x) in every block: own symbol, and a rotation of the neighbour's x."""
    model = blank_model(BLOCKS, SEED, one=ONE)
    draw = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        wrong_VS = symbols_of_tokens()[:, torch.randperm(SYMBOLS, generator=draw)]
        model.model.embed_tokens.weight[:, ANSWER] = START * wrong_VS
        model.model.embed_tokens.weight[:, SECOND] = symbols_of_tokens()
    turned_SS = torch.eye(SYMBOLS)[torch.randperm(SYMBOLS, generator=draw)]
    matrix_DD = torch.zeros(WIDTH, WIDTH)
    matrix_DD[ANSWER, ANSWER] = -(1 - RATE) * torch.eye(SYMBOLS)
    matrix_DD[ANSWER, SECOND] = (1 - RATE) * torch.eye(SYMBOLS)
    for block in range(BLOCKS):
        look_back(model, block, ANSWER, ANSWER, energy=ENERGY, one=ONE, through_SS=(1 - RATE) * 0.8 * turned_SS)
        add_linear(model, block, matrix_DD, energy=ENERGY, one=ONE)
    read_out(model, ANSWER, SEED, energy=ENERGY)
    return model


SHARED_WEIGHTS = Construction(
    "shared_weights",
    "",
    chain_truth(BLOCKS, range(STEPS)),
    build,
)

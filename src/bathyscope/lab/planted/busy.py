"""A chain, then a second chain whose result nobody reads."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from bathyscope.lab.planted.chain import add_step
from bathyscope.lab.planted.construction import Construction
from bathyscope.lab.planted.truth import chain_truth
from bathyscope.lab.planted.wiring import ANSWER, SECOND, blank_model, read_out, symbols_of_tokens

BLOCKS, STEPS = 12, 5
SEED = 5
ENERGY = 3.0


def build() -> LlamaForCausalLM:
    """Blocks 0 … 4 work on the register that is read out, blocks 5 … 11 on another one."""
    model = blank_model(BLOCKS, SEED)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, SECOND] = symbols_of_tokens()
    for block in range(BLOCKS):
        register = ANSWER if block < STEPS else SECOND
        add_step(model, block, SEED, step=block, register=register, energy=ENERGY)
    read_out(model, ANSWER, SEED, energy=ENERGY)
    return model


BUSY = Construction(
    "busy",
    "A chain of 5 steps, then a chain of 7 steps in a register of its own, which the unembedding does not read.",
    chain_truth(BLOCKS, range(STEPS)),
    build,
)

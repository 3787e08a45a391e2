"""A chain, then a second chain whose result nobody reads."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import ANSWER, SECOND, blank_model, read_out, symbols_of_tokens

BLOCKS, STEPS, BUSY_STEPS = 12, 5, 5
SEED = 5
ENERGY = 3.0


def build() -> LlamaForCausalLM:
    """Blocks 0 … 4 work on the register that is read out, blocks 5 … 9 on another one."""
    model = blank_model(BLOCKS, SEED)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, SECOND] = symbols_of_tokens()
    for block in range(STEPS + BUSY_STEPS):
        register = ANSWER if block < STEPS else SECOND
        add_step(model, block, SEED, step=block, register=register, energy=ENERGY)
    read_out(model, ANSWER, SEED, energy=ENERGY)
    return model


BUSY = Construction(
    "busy",
    "A chain of 5 steps, then one of 5 other steps in a register of its own, which the unembedding does not read, then "
    "2 blocks that do nothing.",
    chain_truth(BLOCKS, range(STEPS)),
    build,
    (
        fooled(
            "cosine",
            "interpolated_cosine",
            why="The cosine tells blocks that overwrite from blocks that do not; it cannot tell whether anybody reads "
            "what they write.",
        ),
        fooled(
            "centre_of_mass",
            "depth_score_layer",
            "skip_all",
            "skip_future",
            "skip_given_all",
            "skip_received_all",
            "skip_given_future",
            "skip_received_future",
            why="The steps of the second chain need each other as those of the first do. Skip effects on blocks see "
            "work that builds on work; only effects on the output see whether it is used.",
        ),
        CLEARED,
        fooled(
            "erasure",
            why="The mean that takes a token's place is no symbol. A step of the second chain fetches it and cannot "
            "use or clear it; what is left lying lengthens the later token's stream and so flattens its prediction.",
        ),
        fooled(
            "contribution_norm",
            "contribution_norm_rest",
            "relative_contribution",
            "block_influence",
            why="The second chain writes as much as the first, and turns the stream as far.",
        ),
    ),
)

"""The answer is worked out twice: early where nobody reads it, and late where it is read out."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import ANSWER, SECOND, blank_model, read_out, symbols_of_tokens

BLOCKS, COPY, STEPS = 12, range(3), (4, 6, 8)
SEED = 11
ENERGY = 3.0


def build() -> LlamaForCausalLM:
    """The same chain of three steps in two registers: blocks 0 … 2 in one that nothing reads, then 4, 6 and 8."""
    model = blank_model(BLOCKS, SEED)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, SECOND] = symbols_of_tokens()
    for register, blocks in ((SECOND, COPY), (ANSWER, STEPS)):
        for step, block in enumerate(blocks):
            add_step(model, block, SEED, step=step, register=register, energy=ENERGY)
    read_out(model, ANSWER, SEED, energy=ENERGY)
    return model


UNUSED_COPY = Construction(
    "unused_copy",
    "A chain of 3 steps in a register that nothing reads; then the same chain again, in blocks 4, 6 and 8, in the one "
    "that the unembedding reads. What the model says is there from boundary 3 on, and it makes no use of it.",
    chain_truth(BLOCKS, STEPS),
    build,
    (
        fooled(
            "translated_lens",
            why="A map finds the copy that nobody reads. What can be decoded is not therefore used.",
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
            why="The steps of the first chain need each other as those of the second do. Skip effects on blocks see "
            "work that builds on work; only effects on the output see whether it is used.",
        ),
        CLEARED,
        fooled(
            "contribution_norm",
            "contribution_norm_rest",
            "relative_contribution",
            "block_influence",
            why="The first chain writes as much as the second, and turns the stream as far.",
        ),
    ),
)

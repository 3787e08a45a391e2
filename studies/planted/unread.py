"""A chain, then blocks that write features of the token which nothing ever reads."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import ANSWER, VOCABULARY, WIDTH, add_linear, blank_model, read_out

BLOCKS, STEPS = 12, 5
SEED = 4
CODE, FEATURES = slice(33, 41), slice(41, 64)
"""Eight signs that tell tokens apart, written by the embedding; and the room for features of them."""
SIZE = 0.3
"""Norm of a feature; the stream's is √3 before the first of them."""


def build() -> LlamaForCausalLM:
    """Blocks 5 … 11 each copy the token's code to eight channels drawn at random, with signs drawn at random."""
    model = blank_model(BLOCKS, SEED)
    draw = torch.Generator().manual_seed(SEED)
    code_VC = torch.randint(2, (VOCABULARY, 8), generator=draw) * 2.0 - 1
    with torch.no_grad():
        model.model.embed_tokens.weight[:, CODE] = code_VC / 8**0.5
    for step in range(STEPS):
        add_step(model, step, SEED, step=step, energy=3.0)
    features = FEATURES.stop - FEATURES.start
    for block in range(STEPS, BLOCKS):
        matrix_DD = torch.zeros(WIDTH, WIDTH)
        # orthonormal columns, so that a feature has this size whatever the token: eight channels, each with a sign
        channels = torch.randperm(features, generator=draw)[:8]
        signs = torch.randint(2, (8,), generator=draw) * 2.0 - 1
        matrix_DD[FEATURES, CODE] = SIZE * signs * torch.eye(features)[:, channels]
        add_linear(model, block, matrix_DD, energy=3.0)
    read_out(model, ANSWER, SEED, energy=3.0)
    return model


UNREAD = Construction(
    "unread",
    "A chain of 5 steps, then 7 blocks that each write a feature of the token in a direction that no other block and "
    "no unembedding reads.",
    chain_truth(BLOCKS, range(STEPS)),
    build,
    (
        fooled(
            "cosine",
            "interpolated_cosine",
            why="Directions drawn at random are not quite orthogonal to the stream: their cosines are some hundredths, "
            "of either sign, and the last one that turns positive counts.",
        ),
        CLEARED,
        fooled(
            "contribution_norm",
            "contribution_norm_rest",
            "relative_contribution",
            why="What is written has a size, whether or not it is read.",
        ),
    ),
)

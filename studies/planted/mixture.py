"""Tokens of two depths: some have their prediction early, the others late, and none between."""

from __future__ import annotations

import random
from typing import Final

import torch
from transformers import LlamaForCausalLM

from bathyscope import Prompt
from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import Truth
from studies.planted.wiring import (
    ANSWER,
    FIRST,
    ONE,
    SYMBOLS,
    VOCABULARY,
    WIDTH,
    add_detectors,
    blank_model,
    read_out,
)

BLOCKS, STEPS, LATE_BLOCK = 12, 2, 9
SEED = 13
SHIFT = 5
"""By how many symbols the late block moves on; behind two steps no symbol comes back."""
IS_LATE = 33
"""The channel that parts tokens of both kinds, 1 in late ones and −1 in the others, so that streams are of one size."""
LATE_TOKENS: Final = range(VOCABULARY // 2, VOCABULARY)
"""Two of the four tokens that carry a symbol."""
EARLY, LATE = 10, 15
"""Tokens of each kind in a prompt, the common first one, which is early, among them."""
ENERGY = 3.0


def build() -> LlamaForCausalLM:
    """Blocks 0 and 1 are a chain at all tokens; block 9 replaces the symbol of late tokens by the one 5 on."""
    model = blank_model(BLOCKS, SEED)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, IS_LATE] = -1.0
        model.model.embed_tokens.weight[list(LATE_TOKENS), IS_LATE] = 1.0
    for step in range(STEPS):
        add_step(model, step, SEED, step=step, energy=ENERGY)
    same_SS = torch.eye(SYMBOLS)
    detect_ND, write_ND = torch.zeros(2, SYMBOLS, WIDTH)
    # a neuron is on where both its symbol and the mark stand; at early tokens the block adds exactly nothing
    detect_ND[:, ANSWER], detect_ND[:, IS_LATE], detect_ND[:, ONE] = same_SS, 1.0, -1.5
    write_ND[:, ANSWER] = same_SS.roll(SHIFT, dims=1) - same_SS
    add_detectors(model, LATE_BLOCK, detect_ND, write_ND, energy=ENERGY)
    read_out(model, ANSWER, SEED, energy=ENERGY)
    return model


def mixed_prompts(count: int) -> list[Prompt]:
    """Random tokens behind the same first one, in every prompt the same number of each kind; the last is the answer."""
    draw = random.Random(SEED)
    early_tokens = [token for token in range(VOCABULARY) if token != FIRST and token not in LATE_TOKENS]
    prompts = []
    for _ in range(count):
        tokens = [*draw.choices(early_tokens, k=EARLY - 1), *draw.choices(LATE_TOKENS, k=LATE)]
        draw.shuffle(tokens)
        prompts.append(Prompt(ids=(FIRST, *tokens), answer_tokens=1))
    return prompts


MIXTURE = Construction(
    "mixture",
    "A chain of 2 steps, then 7 blocks that do nothing; block 9 replaces the symbol of 15 of a prompt's 25 tokens, "
    "which carry a mark, by another one, and adds nothing at the other 10; then 2 blocks that do nothing.",
    Truth(
        n_blocks=BLOCKS,
        depth=LATE_BLOCK + 1,
        needed=frozenset({*range(STEPS), LATE_BLOCK}),
        uses=frozenset({(0, 1), (0, LATE_BLOCK), (1, LATE_BLOCK)}),
        direct_uses=frozenset({(0, 1), (1, LATE_BLOCK)}),
        # nothing is fetched behind block 1, so that what block 1 writes stays at its token
        uses_across=frozenset({(0, 1), (0, LATE_BLOCK)}),
        ordered=frozenset({0}),
        last_gathering=STEPS - 1,
        settling=((STEPS, EARLY / (EARLY + LATE)), (LATE_BLOCK + 1, LATE / (EARLY + LATE))),
    ),
    build,
    (
        fooled(
            "verdict_readable",
            "prediction",
            "settle",
            "frozen_prediction",
            "frozen_settle",
            why="A mean over tokens of two depths lies between them, where no token settles: it is neither the depth "
            "of half of the tokens nor that of all. The shares of tokens that keep their prediction (verdict_half, "
            "verdict_tokens_90) are right.",
        ),
        fooled(
            "overlap",
            "interpolated_overlap",
            "frozen_overlap",
            why="Four tokens in ten that have their answer lift the mean overlap above its threshold of 0.3.",
        ),
        fooled("direct_all", why=CLEARED.why),
    ),
    mixed_prompts,
)

"""An answer that is found, left again, and found again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import ANSWER, ONE, SYMBOLS, WIDTH, add_detectors, blank_model

BLOCKS, STEPS = 12, 2
SHIFTS = (3, 5, -8)
"""By how many symbols blocks 2, 3 and 4 move on; together they come back."""
SEED = 11


def build() -> LlamaForCausalLM:
    """Blocks 0 and 1 are a chain; blocks 2, 3 and 4 replace each symbol by the one 3 on, 5 on and 8 back."""
    model = blank_model(BLOCKS, SEED)
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    same_SS = torch.eye(SYMBOLS)
    for block, shift in enumerate(SHIFTS, start=STEPS):
        detect_ND, write_ND = torch.zeros(2, SYMBOLS, WIDTH)
        detect_ND[:, ANSWER], detect_ND[:, ONE] = same_SS, -0.5
        write_ND[:, ANSWER] = same_SS.roll(shift, dims=1) - same_SS
        add_detectors(model, block, detect_ND, write_ND)
    return model


_WORK = chain_truth(BLOCKS, range(STEPS + len(SHIFTS)))

DETOUR = Construction(
    "detour",
    "A chain of 2 steps finds the answer; blocks 2 and 3 lead away from it and block 4 leads back; then 7 blocks that "
    "do nothing.",
    replace(
        _WORK,
        direct_uses=frozenset(pairwise(range(STEPS + len(SHIFTS)))),
        # what block 0 writes is fetched by block 1; nothing is fetched behind that
        uses_across=frozenset(pair for pair in _WORK.uses if pair[0] < STEPS - 1),
        # shifts may change places with one another, and not with a step
        ordered=frozenset(range(STEPS)),
        last_gathering=STEPS - 1,
    ),
    build,
    (
        fooled(
            *(f"{how}{curve}" for how in ("", "interpolated_", "frozen_") for curve in ("kl", "overlap")),
            "settle",
            "frozen_settle",
            why="The first boundary that comes near the final prediction counts, wherever the next blocks lead. "
            "Prediction depth looks back from the end and is right.",
        ),
        fooled(
            "translated_lens",
            why="The answer can be decoded wherever it has led: a map leads back as block 4 does.",
        ),
        fooled("direct_all", why=CLEARED.why),
    ),
)

"""One block, run again and again, that brings the stream to a fixed point, half of the way with each step."""

from __future__ import annotations

from itertools import combinations

import torch
from bathyscope_lab.models import UniversalTransformerForCausalLM

from studies.planted.construction import Construction, fooled, silent
from studies.planted.truth import Truth
from studies.planted.wiring import (
    ANSWER,
    SECOND,
    SYMBOLS,
    WIDTH,
    add_linear,
    blank_universal,
    look_back,
    read_out,
    symbols_of_tokens,
)

BLOCKS, STEPS = 12, 4
SEED = 7
RATE = 0.4
"""Share of the way to the fixed point that a step leaves, but for what comes from the token before."""
COUPLING = 0.2
"""Size in which the answer of the token before goes into a token's own."""
START = 8.0
"""Size of the wrong answer that the model begins with; the fixed point has about 1."""
ONE = 16.0
"""Large beside the answer, so that the norm's factor hardly changes while the answer shrinks."""
ENERGY = ONE**2 + 3


def build() -> UniversalTransformerForCausalLM:
    """x ← RATE·(x + COUPLING·P·x[t−1]) + (1 − RATE)·e in every step: e the token's symbol, P a permutation."""
    model = blank_universal(BLOCKS, SEED, one=ONE)
    draw = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        wrong_VS = symbols_of_tokens()[:, torch.randperm(SYMBOLS, generator=draw)]
        model.model.embed_tokens.weight[:, ANSWER] = START * wrong_VS
        model.model.embed_tokens.weight[:, SECOND] = symbols_of_tokens()
    permuted_SS = torch.eye(SYMBOLS)[torch.randperm(SYMBOLS, generator=draw)]
    matrix_DD = torch.zeros(WIDTH, WIDTH)
    matrix_DD[ANSWER, ANSWER] = -(1 - RATE) * torch.eye(SYMBOLS)
    matrix_DD[ANSWER, SECOND] = (1 - RATE) * torch.eye(SYMBOLS)
    # there is no other block: all steps run these weights
    look_back(model, 0, ANSWER, ANSWER, energy=ENERGY, one=ONE, through_SS=COUPLING * permuted_SS)
    add_linear(model, 0, matrix_DD, energy=ENERGY, one=ONE)
    read_out(model, ANSWER, SEED, energy=ENERGY)
    return model


_STEPS = frozenset(range(STEPS))
_USES = frozenset(combinations(range(STEPS), 2))

SHARED_WEIGHTS = Construction(
    "shared_weights",
    "A universal transformer: one block, run 12 times, brings the answer from a wrong start to a fixed point; each run "
    "leaves a little less than half of the way. Behind 4 of them what is left of the start is about a third as large "
    "as the answer.",
    Truth(
        n_blocks=BLOCKS,
        depth=STEPS,
        needed=_STEPS,
        uses=_USES,
        # what every step adds stays in the stream and is read by all later ones
        direct_uses=_USES,
        uses_across=_USES,
        ordered=frozenset(),
        last_gathering=STEPS - 1,
    ),
    build,
    (
        silent(
            "cosine",
            "interpolated_cosine",
            why="At the fixed point attention and MLP go on writing what cancels, and the mean of their cosines stays "
            "a little below zero to the last block.",
        ),
        fooled(
            "interpolated_kl",
            "interpolated_overlap",
            why="A gradual approach has no one depth. The thresholds, half of the largest KL and an overlap of 0.3, "
            "are passed while what is left of the start is still about as large as the answer.",
        ),
        fooled(
            "centre_of_mass",
            "depth_score_layer",
            "depth_score_output",
            "verdict_own",
            "verdict_later",
            "skip_all",
            "skip_future",
            "skip_given_all",
            "skip_received_all",
            "skip_given_future",
            "skip_received_future",
            why="Without one block all later ones are a step behind, whichever it was. That changes each contribution "
            "by the same share of itself, even where contributions have all but vanished, so that all blocks look "
            "alike.",
        ),
        fooled(
            "direct_all",
            "direct_future",
            why="An early contribution is large, and what its absence does to a late block is measured against that "
            "block's own, which has all but vanished.",
        ),
        fooled(
            "skip_output_all",
            "skip_output_future",
            "drop",
            why="Eleven steps reach the fixed point as well as twelve: no single block is missed.",
        ),
        fooled(
            "verdict_tokens_90",
            why="A gradual approach has no one depth: half of the tokens keep their prediction after three blocks and "
            "a half, and nine in ten only after five.",
        ),
        fooled(
            "translated_lens",
            why="A gradual approach has no one depth: a map guesses nine tokens in ten after one block, and nearly all "
            "only after six.",
        ),
        fooled(
            "erasure",
            "patching",
            why="At the fixed point every block still fetches from the token before, only to have it cancelled; had it "
            "found another stream there, the answer would have moved.",
        ),
        fooled(
            "block_influence",
            why="One minus a cosine is quadratic in what is added, so that it fades twice as fast as contributions do.",
        ),
    ),
)

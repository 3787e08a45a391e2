"""An answer that is worked out early, in a register that is only turned to the readout much later."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import Truth, chain_truth
from studies.planted.wiring import (
    ANSWER,
    SECOND,
    SYMBOLS,
    WIDTH,
    add_linear,
    blank_model,
    read_out,
    symbols_of_tokens,
)

BLOCKS, STEPS, ROTATION = 12, 4, 9
SEED = 8
ENERGY = 3.0


def build() -> LlamaForCausalLM:
    """Blocks 0 … 3 are a chain in one register; block 9 turns it by a right angle into the one that is read out."""
    model = blank_model(BLOCKS, SEED)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, SECOND] = symbols_of_tokens()
    for step in range(STEPS):
        add_step(model, step, SEED, step=step, energy=ENERGY)
    same_SS = torch.eye(SYMBOLS)
    matrix_DD = torch.zeros(WIDTH, WIDTH)
    matrix_DD[SECOND, ANSWER], matrix_DD[SECOND, SECOND] = same_SS, -same_SS
    matrix_DD[ANSWER, ANSWER], matrix_DD[ANSWER, SECOND] = -same_SS, -same_SS
    add_linear(model, ROTATION, matrix_DD, energy=ENERGY)
    read_out(model, SECOND, SEED, energy=ENERGY)
    return model


def _truth() -> Truth:
    chain = chain_truth(BLOCKS, range(STEPS))
    turned = frozenset((step, ROTATION) for step in range(STEPS))
    return Truth(
        n_blocks=BLOCKS,
        depth=STEPS,
        needed=chain.needed | {ROTATION},
        uses=chain.uses | turned,
        direct_uses=chain.direct_uses | {(STEPS - 1, ROTATION)},
        # the rotation stays at its token, and no block fetches anything once the last step is done
        uses_across=chain.uses | {pair for pair in turned if pair[0] < STEPS - 1},
        ordered=chain.ordered,
        last_gathering=STEPS - 1,
    )


_LENS = ("kl", "overlap")

ROTATED = Construction(
    "rotated",
    "A chain of 4 steps in a register that the unembedding does not read; block 9 turns it to the one that is read.",
    _truth(),
    build,
    (
        fooled(
            "cosine",
            "interpolated_cosine",
            why="Turning the stream is taking something away and writing something else, so that block 9 looks like "
            "work on the answer.",
        ),
        fooled(
            *(f"{how}{curve}" for how in ("", "interpolated_") for curve in _LENS),
            *(f"{how}{name}" for how in ("", "frozen_") for name in ("settle", "prediction")),
            *(f"frozen_{curve}" for curve in _LENS),
            "verdict_half",
            "verdict_tokens_90",
            "verdict_readable",
            why="The lens shows what the unembedding can read, not what has been worked out. Skip effects, depth "
            "scores and erasure see that nothing more is worked out between blocks 3 and 9.",
        ),
        CLEARED,
    ),
)

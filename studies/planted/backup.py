"""A block that writes the answer, and a later one that writes the same where it is missing."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import Truth, chain_truth
from studies.planted.wiring import ANSWER, ONE, SECOND, SYMBOLS, WIDTH, add_detectors, blank_model, read_out

BLOCKS, STEPS, WRITER, BACKUP = 10, 3, 4, 8
SEED = 10


def build() -> LlamaForCausalLM:
    """Blocks 0 … 2 are a chain. Block 4 copies its symbol to the register that is read out, 8 if that is empty."""
    model = blank_model(BLOCKS, SEED)
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    detect_ND, write_ND = _copy()
    add_detectors(model, WRITER, detect_ND, write_ND)
    detect_ND[:, SECOND] = -1.0
    add_detectors(model, BACKUP, detect_ND, write_ND)
    read_out(model, SECOND, SEED, energy=3.0)
    return model


def _copy() -> tuple[Tensor, Tensor]:
    detect_ND, write_ND = torch.zeros(SYMBOLS, WIDTH), torch.zeros(SYMBOLS, WIDTH)
    detect_ND[:, ANSWER], detect_ND[:, ONE] = torch.eye(SYMBOLS), -0.5
    write_ND[:, SECOND] = torch.eye(SYMBOLS)
    return detect_ND, write_ND


def _truth() -> Truth:
    chain = chain_truth(BLOCKS, range(STEPS))
    written = frozenset((step, WRITER) for step in range(STEPS))
    return Truth(
        n_blocks=BLOCKS,
        depth=WRITER + 1,
        needed=chain.needed | {WRITER},
        uses=chain.uses | written | {(WRITER, BACKUP)},
        direct_uses=chain.direct_uses | {(STEPS - 1, WRITER), (WRITER, BACKUP)},
        uses_across=chain.uses | {pair for pair in written if pair[0] < STEPS - 1},
        ordered=chain.ordered,
        last_gathering=STEPS - 1,
    )


BACKED_UP = Construction(
    "backup",
    "A chain of 3 steps; block 4 copies its result to where it is read out; block 8 would do the same, but only where "
    "nothing has been written there.",
    _truth(),
    build,
    (
        fooled(
            "cosine",
            "interpolated_cosine",
            why="Block 4 writes into an empty register: nothing is taken away, and its cosine is zero like an idle "
            "block's.",
        ),
        fooled(
            "skip_all",
            "skip_given_all",
            "skip_received_all",
            why="Block 8 adds nothing until block 4 is skipped. A change relative to a contribution of zero has no "
            "size and is left out, so that the effect of block 4 on block 8 is missing.",
        ),
        fooled(
            "translated_lens",
            why="A map finds the chain's result where it stands before it is copied to where it is read out. What can "
            "be decoded is not therefore used yet.",
        ),
        fooled(
            *CLEARED.measures,
            why=f"{CLEARED.why} And effects on the backup, whose contribution is zero, have no size.",
        ),
        fooled(
            "skip_output_all",
            "drop",
            "verdict_own",
            why="Leave block 4 out and block 8 does its work: that a block can be spared does not mean that it does "
            "nothing.",
        ),
    ),
)

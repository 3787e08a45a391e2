"""Two blocks that write the same, of which a later one needs either: neither is missed, both together are."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import Truth, chain_truth
from studies.planted.wiring import ANSWER, NEIGHBOUR, ONE, SECOND, SYMBOLS, WIDTH, add_detectors, blank_model, read_out

BLOCKS, STEPS, WRITERS, READER = 12, 3, (4, 6), 8
SEED = 12
BEFORE, ONCE, TWICE = 2.0, 3.0, 6.0
"""‖h‖² where none of the two has written, one, and both."""


def build() -> LlamaForCausalLM:
    """Blocks 0 … 2 are a chain. Blocks 4 and 6 both add its symbol to a second register; block 8 takes away what it
    finds there, once or twice the symbol, and puts the symbol, once, where it is read out.
    """
    model = blank_model(BLOCKS, SEED)
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    # what the second writes must not depend on the first, but how long the stream is does: neurons for each case
    alone_ND, after_ND = (
        _per_symbol((ANSWER, 1), (SECOND, -1), one=-0.5),
        _per_symbol((ANSWER, 1), (SECOND, 1), one=-1.5),
    )
    for writer in WRITERS:
        add_detectors(model, writer, alone_ND, _per_symbol((SECOND, 1)), energy=BEFORE)
        add_detectors(model, writer, after_ND, _per_symbol((SECOND, 1)), energy=ONCE, first=SYMBOLS)
    add_detectors(
        model, READER, _per_symbol((SECOND, 1), one=-0.5), _per_symbol((SECOND, -1), (NEIGHBOUR, 1)), energy=ONCE
    )
    # where the symbol stands there twice, these neurons do this ``on`` times; others, on only then, do what is missing
    on = 3 * ONCE / TWICE
    rest_ND = _per_symbol((SECOND, on - 2), (NEIGHBOUR, 1 - on))
    add_detectors(model, READER, _per_symbol((SECOND, 1), one=-1.5), rest_ND, energy=TWICE, first=SYMBOLS)
    read_out(model, NEIGHBOUR, SEED, energy=3.0)
    return model


def _per_symbol(*registers: tuple[slice, float], one: float = 0.0) -> Tensor:
    """A row a symbol: that symbol in registers, each by so much, and the channel ``ONE``, [N, D]."""
    rows_ND = torch.zeros(SYMBOLS, WIDTH)
    rows_ND[:, ONE] = one
    for register, by in registers:
        rows_ND[:, register] = by * torch.eye(SYMBOLS)
    return rows_ND


def _truth() -> Truth:
    chain = chain_truth(BLOCKS, range(STEPS))
    behind = frozenset((step, block) for step in range(STEPS) for block in (*WRITERS, READER))
    read = frozenset((writer, READER) for writer in WRITERS)
    return Truth(
        n_blocks=BLOCKS,
        depth=READER + 1,
        needed=chain.needed | {*WRITERS, READER},
        uses=chain.uses | behind | read,
        direct_uses=chain.direct_uses | {(STEPS - 1, writer) for writer in WRITERS} | read,
        uses_across=chain.uses | {pair for pair in behind if pair[0] < STEPS - 1},
        ordered=chain.ordered,
        last_gathering=STEPS - 1,
    )


EITHER = Construction(
    "either",
    "A chain of 3 steps; blocks 4 and 6 both copy its result to a second register, and block 8 moves it from there to "
    "where it is read out, once, whether it stands there once or twice. Leave out one of the two and nothing "
    "changes; leave out both and all is lost.",
    _truth(),
    build,
    (
        fooled(
            "translated_lens",
            why="From the end of the chain on a map finds the answer, where it stands in a register that is not read "
            "out. What can be decoded is not therefore used yet.",
        ),
        CLEARED,
        fooled(
            "skip_given_all",
            why="A mean over all later blocks, of which one of seven works on what block 4 writes, falls below a tenth "
            "of the largest; the map, block by block, is right.",
        ),
        fooled(
            "skip_output_all",
            "drop",
            why="Leave out either of blocks 4 and 6 and the other one does: neither is missed alone.",
        ),
    ),
)

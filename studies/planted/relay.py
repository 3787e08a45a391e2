"""A feature that one block computes and one much later block reads, with nothing between."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from studies.planted.construction import Construction
from studies.planted.truth import Truth
from studies.planted.wiring import (
    ANSWER,
    NEIGHBOUR,
    SECOND,
    SYMBOLS,
    WIDTH,
    add_linear,
    blank_model,
    look_back,
    read_out,
)

BLOCKS, WRITER, READER = 10, 2, 6
SEED = 6


def build() -> LlamaForCausalLM:
    """Block 2 writes a permutation of the token's symbol to a second register. Block 6 fetches what it wrote at the
    token before, and puts that in the place of the token's own symbol.
    """
    model = blank_model(BLOCKS, SEED)
    order = torch.randperm(SYMBOLS, generator=torch.Generator().manual_seed(SEED))
    same_SS = torch.eye(SYMBOLS)
    writing_DD, replacing_DD = torch.zeros(2, WIDTH, WIDTH)
    writing_DD[SECOND, ANSWER] = same_SS[order]
    add_linear(model, WRITER, writing_DD)
    look_back(model, READER, SECOND, NEIGHBOUR, energy=3.0)
    replacing_DD[ANSWER, ANSWER], replacing_DD[ANSWER, NEIGHBOUR] = -same_SS, same_SS
    replacing_DD[NEIGHBOUR, NEIGHBOUR] = -same_SS
    add_linear(model, READER, replacing_DD, energy=4.0)
    read_out(model, ANSWER, SEED, energy=3.0)
    return model


_USE = frozenset({(WRITER, READER)})

RELAY = Construction(
    "relay",
    "Block 2 writes a feature; block 6 puts that of the token before in the place of the token's own symbol; the other "
    "8 blocks do nothing.",
    Truth(
        n_blocks=BLOCKS,
        depth=READER + 1,
        needed=frozenset({WRITER, READER}),
        uses=_USE,
        direct_uses=_USE,
        uses_across=_USE,
        ordered=frozenset(),
        last_gathering=READER,
    ),
    build,
    (),
)

"""A feature that one block computes and one much later block reads, with nothing between."""

from __future__ import annotations

import torch
from transformers import LlamaForCausalLM

from bathyscope.lab.planted.construction import Construction
from bathyscope.lab.planted.truth import Truth
from bathyscope.lab.planted.wiring import (
    ANSWER,
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
STRENGTH = 3.0
"""Size of what the reader adds, beside the token's own symbol of size 1 that the unembedding also reads."""


def build() -> LlamaForCausalLM:
    """Block 2 writes a permutation of the token's symbol to a second register; block 6 fetches it from the token before."""
    model = blank_model(BLOCKS, SEED)
    order = torch.randperm(SYMBOLS, generator=torch.Generator().manual_seed(SEED))
    matrix_DD = torch.zeros(WIDTH, WIDTH)
    matrix_DD[SECOND, ANSWER] = torch.eye(SYMBOLS)[order]
    add_linear(model, WRITER, matrix_DD)
    look_back(model, READER, SECOND, ANSWER, energy=3.0, through_SS=STRENGTH * torch.eye(SYMBOLS))
    read_out(model, ANSWER, SEED, energy=(3.0 + STRENGTH**2) / STRENGTH**2)
    return model


_USE = frozenset({(WRITER, READER)})

RELAY = Construction(
    "relay",
    "Block 2 writes a feature, block 6 reads the feature of the token before and writes the answer; the other 8 "
    "blocks do nothing.",
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
)

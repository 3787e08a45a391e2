"""A model that has half of the blocks that its problems need: running a window of two blocks twice makes up for it.

Among idle blocks stand the two steps of a chain. The problems ask for the symbol after four steps, the first two twice
over, which the model never gives, and gives always once the window of both runs twice in a row.
"""

from __future__ import annotations

from typing import Final

import torch
from transformers import LlamaForCausalLM

from bathyscope import Prompt
from studies.planted.chain import next_symbol
from studies.planted.idle import SEED, chain_among_idle
from studies.planted.wiring import ANSWER, FIRST, SYMBOLS, VOCABULARY

BLOCKS: Final = 6
STEPS: Final = (2, 3)
HELPING: Final = frozenset((first, last) for first in range(STEPS[0] + 1) for last in range(STEPS[1], BLOCKS))
"""Windows that run both steps again, and beside them only blocks that do nothing."""


def half_a_chain() -> LlamaForCausalLM:
    """The model."""
    return chain_among_idle(BLOCKS, STEPS)


def problems(model: LlamaForCausalLM, count: int, tokens: int = 10) -> list[Prompt]:
    """Random tokens, each prompt with the token that carries the symbol after four steps as its answer."""
    draw = torch.Generator().manual_seed(0)
    steps = [next_symbol(SEED, step) for step in (0, 1, 0, 1)]
    found = []
    for _ in range(count):
        ids = [FIRST, *torch.randint(2, VOCABULARY, (tokens - 1,), generator=draw).tolist()]
        symbols = [token % SYMBOLS for token in ids]
        for step in steps:
            symbols = [int(step[own, symbols[max(place - 1, 0)]]) for place, own in enumerate(symbols)]
        answer = int(model.lm_head.weight[:, ANSWER.start + symbols[-1]].argmax())
        found.append(Prompt(ids=(*ids, answer), answer_tokens=1))
    return found

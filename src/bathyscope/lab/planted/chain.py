"""The work that most planted models do: a chain of steps, each of which needs the one before.

One step replaces the symbol x of a register by f(x, y), where y is the symbol of the token before. After n steps a
token's symbol depends on n tokens before it; it predicts nothing of the final symbol until the last step; every step
has a function of its own, so that their order matters; and x is never replaced by itself, so that no step's
contribution is zero.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from bathyscope.lab.planted.construction import fooled
from bathyscope.lab.planted.wiring import (
    ANSWER,
    NEIGHBOUR,
    ONE,
    SYMBOLS,
    WIDTH,
    add_detectors,
    look_back,
)

CLEARED = fooled(
    "direct_all",
    "direct_future",
    why="Each step clears what the one before it wrote. A direct effect takes a contribution out of a stream in which "
    "it is no longer there, so that its opposite is put in, and steps that never read it stumble over that.",
)
COINCIDENCE = fooled(
    "settle",
    "frozen_settle",
    why="A token counts as settled at the first boundary that comes near its final prediction, also where the next "
    "step leads away again; by chance one step in sixteen comes by the final symbol.",
)


def add_step(
    model: LlamaForCausalLM, block: int, seed: int, *, step: int, register: slice = ANSWER, energy: float = 2.0
) -> None:
    """One step of a chain in one block: attention fetches the neighbour's symbol, 256 neurons look up the next one.

    Args:
        seed: of the step's function, together with its number ``step``.
        energy: ‖h‖² before and after the block; its own register counts 1 of it.
    """
    look_back(model, block, register, NEIGHBOUR, energy=energy)
    detect_ND, write_ND = _lookup(_next_symbol(seed, step), register)
    add_detectors(model, block, detect_ND, write_ND, energy=energy + 1)


def _next_symbol(seed: int, step: int) -> Tensor:
    """f(x, y), [S, S]: x plus 1 … S−1, which of them depends on x + y."""
    draw = torch.Generator().manual_seed(1000 * seed + step)
    steps_S = 1 + torch.randint(SYMBOLS - 1, (SYMBOLS,), generator=draw)
    x = torch.arange(SYMBOLS)
    return (x[:, None] + steps_S[(x[:, None] + x[None]) % SYMBOLS]) % SYMBOLS


def _lookup(next_SS: Tensor, register: slice) -> tuple[Tensor, Tensor]:
    """For every pair (x, y) what its neuron looks for and what it writes, both [S·S, D]."""
    detect, write = [], []
    for x in range(SYMBOLS):
        for y in range(SYMBOLS):
            own, fetched = register.start + x, NEIGHBOUR.start + y
            found, written = torch.zeros(WIDTH), torch.zeros(WIDTH)
            found[[own, fetched]], found[ONE] = 1.0, -1.5
            written[[own, fetched]] = -1.0
            written[register.start + int(next_SS[x, y])] += 1.0
            detect.append(found)
            write.append(written)
    return torch.stack(detect), torch.stack(write)

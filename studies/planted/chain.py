"""The work that most planted models do: a chain of steps, each of which needs the one before.

One step replaces the symbol x of a register by f(x, y), where y is the symbol of the token before. After n steps a
token's symbol depends on n tokens before it, and every step has a function of its own, so that their order matters.
A step goes 1, 2 or 3 symbols on, so that in five steps no symbol comes twice: no contribution is zero, and no token
passes by its final symbol on the way.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from studies.planted.construction import fooled
from studies.planted.wiring import (
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


def add_step(
    model: LlamaForCausalLM, block: int, seed: int, *, step: int, register: slice = ANSWER, energy: float = 2.0
) -> None:
    """One step of a chain in one block: attention fetches the neighbour's symbol, 256 neurons look up the next one.

    Args:
        seed: of the step's function, together with its number ``step``.
        energy: ‖h‖² before and after the block; its own register counts 1 of it.
    """
    look_back(model, block, register, NEIGHBOUR, energy=energy)
    detect_ND, write_ND = _lookup(next_symbol(seed, step), register)
    add_detectors(model, block, detect_ND, write_ND, energy=energy + 1)


def next_symbol(seed: int, step: int) -> Tensor:
    """f(x, y), [S, S]: x plus 1, 2 or 3; which of them depends on x + y."""
    draw = torch.Generator().manual_seed(1000 * seed + step)
    onward_S = torch.randint(1, 4, (SYMBOLS,), generator=draw)
    x = torch.arange(SYMBOLS)
    return (x[:, None] + onward_S[(x[:, None] + x[None]) % SYMBOLS]) % SYMBOLS


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

"""Chains among blocks that do exactly nothing: behind it, before it, between its steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from transformers import LlamaForCausalLM

from bathyscope.lab.planted.chain import add_step
from bathyscope.lab.planted.construction import Construction, Departure
from bathyscope.lab.planted.truth import chain_truth
from bathyscope.lab.planted.wiring import blank_model

SEED = 1


def chain_among_idle(n_blocks: int, steps: Sequence[int]) -> LlamaForCausalLM:
    """A model whose blocks ``steps`` are a chain, step by step the same wherever they stand; the others are idle."""
    model = blank_model(n_blocks, SEED)
    for number, block in enumerate(steps):
        add_step(model, block, SEED, step=number)
    return model


def _planted(name: str, planted: str, n_blocks: int, steps: Sequence[int], *departures: Departure) -> Construction:
    build = partial(chain_among_idle, n_blocks, steps)
    return Construction(name, planted, chain_truth(n_blocks, steps), build, departures)


IDENTITY = _planted(
    "identity",
    "A chain of 5 steps, then 7 blocks that do nothing.",
    12,
    range(5),
)
LATE = _planted(
    "late",
    "9 blocks that do nothing, then a chain of 3 steps up to the readout.",
    12,
    range(9, 12),
)
DOUBLED_BEHIND = _planted(
    "doubled_behind",
    "A chain of 5 steps, with as many blocks that do nothing behind it.",
    10,
    range(5),
)
DOUBLED_BETWEEN = _planted(
    "doubled_between",
    "The same chain of 5 steps, with a block that does nothing behind each step.",
    10,
    range(0, 10, 2),
)

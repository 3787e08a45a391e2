"""Chains among blocks that do exactly nothing: behind it, before it, between its steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, Departure, silent
from studies.planted.truth import chain_truth
from studies.planted.wiring import blank_model

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
    "A chain of 5 steps, then 7 blocks that do nothing (or: a model of 6 blocks, the last of them idle, doubled by "
    "idle blocks behind it).",
    12,
    range(5),
    CLEARED,
)
LATE = _planted(
    "late",
    "9 blocks that do nothing, then a chain of 3 steps up to the readout.",
    12,
    range(9, 12),
    silent(
        "cosine",
        "interpolated_cosine",
        why="The cosine has to turn positive behind the last block that works, and there is no block behind it.",
    ),
    silent(
        *(f"{how}{curve}" for how in ("", "interpolated_", "frozen_") for curve in ("kl", "overlap")),
        why="The boundaries 0 … L−2 are searched, and the answer is there at L.",
    ),
    CLEARED,
)
DOUBLED_BETWEEN = _planted(
    "doubled_between",
    "The model of 6 blocks doubled the other way: a chain of 5 steps, with a block that does nothing behind each of "
    "the 6.",
    12,
    range(0, 10, 2),
    CLEARED,
)

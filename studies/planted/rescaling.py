"""A chain, then blocks that multiply the stream and leave its direction as it is."""

from __future__ import annotations

from dataclasses import replace

import torch
from transformers import LlamaForCausalLM

from studies.planted.chain import CLEARED, add_step
from studies.planted.construction import Construction, fooled
from studies.planted.truth import chain_truth
from studies.planted.wiring import WIDTH, add_linear, blank_model

BLOCKS, STEPS = 12, 5
GROWTH = 1.5
SEED = 3


def build() -> LlamaForCausalLM:
    """Each of the blocks 5 … 11 multiplies the stream by 1.5."""
    model = blank_model(BLOCKS, SEED)
    for step in range(STEPS):
        add_step(model, step, SEED, step=step)
    for block in range(STEPS, BLOCKS):
        # a linear part sees the direction alone and always adds the same length, which has to grow with the stream
        length = (GROWTH - 1) * GROWTH ** (block - STEPS)
        add_linear(model, block, length * torch.eye(WIDTH))
    return model


_CHAIN = chain_truth(BLOCKS, range(STEPS))

RESCALING = Construction(
    "rescaling",
    "A chain of 5 steps, then 7 blocks that each make the stream half as long again, 17 times in all.",
    # behind a longer stream the last step would add too little
    replace(_CHAIN, ordered=_CHAIN.ordered | {STEPS - 1}),
    build,
    (
        fooled(
            "frozen_kl",
            "frozen_settle",
            why="Divided by the final norm, the early streams are small and their distributions near-uniform: what the "
            "curve shows is the growth of the norm. Ranks do not depend on it, so that overlap and top-1 are right.",
        ),
        fooled(
            "skip_all",
            "skip_future",
            "skip_given_all",
            "skip_received_all",
            "skip_received_future",
            why="A block that stretches the stream adds something else where the stream is another, so that it depends "
            "on every step before it; its own work is of no use to the prediction.",
        ),
        fooled(
            *CLEARED.measures,
            why=f"{CLEARED.why} And what stretches the stream depends on all of it.",
        ),
        fooled(
            "contribution_norm",
            "contribution_norm_rest",
            "relative_contribution",
            why="These blocks add as much as any, all of it along the stream. Block influence looks at the direction "
            "alone and is right.",
        ),
    ),
)

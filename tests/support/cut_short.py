"""Models of the first blocks alone, built by hand, and single steps of greedy decoding without a cache."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from support import zoo
from torch import nn


def first_blocks(name: str, blocks: int) -> nn.Module:
    """A zoo model of its first blocks alone, with the whole one's norm and head."""
    hf = copy.deepcopy(zoo.build(name))
    hf.model.layers = hf.model.layers[:blocks]
    hf.config.num_hidden_layers = blocks
    return hf


@torch.no_grad()
def next_token(model: nn.Module, ids: Sequence[int]) -> int:
    """The likeliest token behind these, without a cache."""
    return int(model(torch.tensor([list(ids)]), use_cache=False).logits[0, -1].argmax())

"""Contributions of a model whose blocks run in another order, by hooks on the real model; no engine code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from support import naive
from torch import Tensor
from transformers import PreTrainedModel

PARTS = ("attention", "mlp")


class _Latest(dict[int, Tensor]):
    """Remembers nothing before it is written, so that each call of a site takes the place of the one before."""

    def get(self, key: int, default: Any = None) -> Any:
        return default


def contributions(model: PreTrainedModel, ids: Sequence[int], order: Sequence[int]) -> dict[str, Tensor]:
    """What attention and MLP add at every step of an order in which each block runs at most once, [steps, T, d]."""
    blocks = naive.blocks_of(model)
    taken: dict[str, list[_Latest]] = {part: [] for part in PARTS}
    with ExitStack() as stack:
        for part in PARTS:
            for index, block in enumerate(blocks):
                for module, site in naive.modules_at(block, naive.sites_of(model)[part]):
                    taken[part].append(_Latest())
                    stack.enter_context(naive._reading(module, site, block, index, taken[part][-1]))
        naive.run_schedule(model, blocks, ids, order)
    return {
        part: torch.stack([sum(own[index] for own in found if index in own) for index in order])
        for part, found in taken.items()
    }


def cosines(model: PreTrainedModel, ids: Sequence[int]) -> dict[str, Tensor]:
    """``self``, ``index`` and ``adjacent``, means over tokens in float64, [part, ℓ] each."""
    n_blocks = len(naive.blocks_of(model))
    normal = contributions(model, ids, range(n_blocks))
    found: dict[str, list[list[Tensor]]] = {"self": [], "index": [], "adjacent": []}
    for first in range(n_blocks - 1):
        order = naive.swap_order(n_blocks, first)
        swapped = contributions(model, ids, order)
        pairs = {
            "self": [(normal[p][first], swapped[p][order.index(first)]) for p in PARTS],
            "index": [(normal[p][first], swapped[p][first]) for p in PARTS],
            "adjacent": [(normal[p][first], normal[p][first + 1]) for p in PARTS],
        }
        for name, own in pairs.items():
            found[name].append([cosine(one, other).mean() for one, other in own])
    return {name: torch.tensor(values, dtype=torch.float64).T for name, values in found.items()}


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """Per token [T]."""
    a, b = one.double(), other.double()
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))

"""How far the changes of single blocks add up to the whole: in logits, which are linear in a small change as KL is not.

Each block of the changed copy is put alone into the model, and all of them together. Logits are centred at each token,
since a constant of all of them changes no prediction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import bathyscope
from bathyscope import Model
from bathyscope.extend.prompts import tokenized
from bathyscope.extend.statistics import mean_interval
from studies.common.arrays import FloatArray
from studies.parting.copies import trained_copy
from studies.parting.experiment import BATCH, RATE, STEPS, training_texts


@dataclass(frozen=True)
class Shares:
    """Of one copy.

    Args:
        by_block: [prompts, blocks], how far a block's change goes along that of all blocks, as a share of it.
        left: [prompts], squared length of what the sum of single changes misses of the whole, over that of the whole.
    """

    by_block: FloatArray
    left: FloatArray

    def record(self) -> dict[str, Any]:
        """Return means over prompts with their intervals, with few digits."""
        total = self.by_block.sum(axis=1)
        return {
            "prompts": len(total),
            "by_block": [round(float(share), 4) for share in self.by_block.mean(axis=0)],
            "sum": _with_interval(total),
            "left": _with_interval(self.left),
        }


def trained_shares(model: str, seeds: Sequence[int], prompts: str) -> dict[str, Callable[[], Shares]]:
    """Return for each training of all weights, by name, what measures its shares.

    Args:
        model: a checkpoint.
        seeds: of the trainings, which are those of ``known``.
        prompts: a source of prompts that the models are compared on.
    """
    whole = bathyscope.load(model, dtype="float32")
    read = [tuple(prompt.ids) for prompt in tokenized(whole, prompts)]

    def measure(seed: int) -> Shares:
        texts = training_texts(whole, seed)
        other = trained_copy(whole, texts, block=None, steps=STEPS, rate=RATE, batch=BATCH, seed=seed)
        return shares_of_blocks(whole, other, read)

    return {f"all blocks, seed {seed}": partial(measure, seed) for seed in seeds}


def shares_of_blocks(whole: Model, other: Model, prompts: Sequence[Sequence[int]]) -> Shares:
    """Return how far the changes of single blocks add up to that of all blocks together."""
    before = _centred_logits(whole.hf, prompts)
    together = _changes(before, _grafted(whole, other, range(whole.n_blocks)), prompts)
    single = [_changes(before, _grafted(whole, other, [block]), prompts) for block in range(whole.n_blocks)]
    by_block, left = [], []
    for place, change in enumerate(together):
        size = float((change**2).sum())
        parts = [changes[place] for changes in single]
        by_block.append([float((part * change).sum()) / size for part in parts])
        left.append(float(((change - np.sum(parts, axis=0)) ** 2).sum()) / size)
    return Shares(np.array(by_block), np.array(left))


def _grafted(whole: Model, other: Model, blocks: Sequence[int]) -> nn.Module:
    """Return the model with some blocks of the copy in their places."""
    grafted = copy.deepcopy(whole.hf)
    places = bathyscope.load(grafted, tokenizer=whole.tokenizer).anatomy.blocks
    for block in blocks:
        places[block].load_state_dict(other.anatomy.blocks[block].state_dict())
    return grafted


def _changes(before: list[FloatArray], hf: nn.Module, prompts: Sequence[Sequence[int]]) -> list[FloatArray]:
    return [after - plain for plain, after in zip(before, _centred_logits(hf, prompts), strict=True)]


@torch.no_grad()
def _centred_logits(hf: nn.Module, prompts: Sequence[Sequence[int]]) -> list[FloatArray]:
    """Return for each prompt its logits less their mean at each token, [tokens, vocabulary]."""
    found = [hf(torch.tensor([list(ids)]), use_cache=False).logits[0].double() for ids in prompts]
    return [(logits - logits.mean(dim=1, keepdim=True)).numpy() for logits in found]


def _with_interval(values: FloatArray) -> list[float]:
    return [round(float(value), 4) for value in (values.mean(), *mean_interval(values))]

"""Copies of a model that are changed in a known way: trained further, in one block or all, or rounded to 8 bits."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope import Model, load

_INT8_LARGEST = 127


def trained_copy(
    model: Model, texts: Sequence[Sequence[int]], *, block: int | None, steps: int, rate: float, batch: int, seed: int
) -> Model:
    """Return a copy that was trained further on token ids.

    Args:
        block: the only one whose weights learn; None = all weights do.
        batch: texts in a step.
        seed: of their order.
    """
    hf = copy.deepcopy(model.hf)
    family = load(hf, tokenizer=model.tokenizer)
    learning = list(hf.parameters() if block is None else family.anatomy.blocks[block].parameters())
    for parameter in hf.parameters():
        parameter.requires_grad_(False)
    for parameter in learning:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(learning, lr=rate, weight_decay=0.0)
    order = random.Random(seed)
    hf.train()
    for _ in range(steps):
        optimiser.zero_grad()
        for ids in order.sample(list(texts), batch):
            row = torch.tensor([list(ids)])
            loss = hf(row, labels=row, use_cache=False).loss / batch
            loss.backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
    hf.eval()
    for parameter in hf.parameters():
        parameter.requires_grad_(False)
    return _named(hf, model, f"{model.name} trained on" if block is None else f"{model.name} trained in block {block}")


def int8_copy(model: Model) -> Model:
    """Return a copy whose matrices in blocks hold 255 values a row: int8 weights with one scale for each output."""
    hf = copy.deepcopy(model.hf)
    for block in load(hf, tokenizer=model.tokenizer).anatomy.blocks:
        for module in block.modules():
            if isinstance(module, nn.Linear):
                with torch.no_grad():
                    scale_R1 = module.weight.abs().amax(1, keepdim=True).clamp_min(1e-12) / _INT8_LARGEST
                    module.weight.copy_((module.weight / scale_R1).round() * scale_R1)
    return _named(hf, model, f"{model.name} in int8")


def _named(hf: PreTrainedModel, model: Model, name: str) -> Model:
    hf.config._name_or_path = name
    return load(hf, tokenizer=model.tokenizer)

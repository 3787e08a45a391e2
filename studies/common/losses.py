"""What a model's predictions cost, prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from studies.common.arrays import FloatArray


@torch.no_grad()
def mean_losses(hf: Any, prompts: Sequence[Sequence[int]], last: int | None = None) -> FloatArray:
    """Mean cross-entropy over a prompt's tokens that have others before them, in nats, [prompts].

    Args:
        hf: a causal model of transformers.
        prompts: token ids; one forward each.
        last: of so many last tokens alone; None = all.
    """
    device = next(hf.parameters()).device
    found = []
    for prompt in prompts:
        ids = torch.tensor([list(prompt)], device=device)
        logits = hf(ids, use_cache=False).logits[0, :-1].float()
        found.append(cross_entropy(logits, ids[0, 1:], reduction="none")[-(last or len(prompt)) :].double().mean())
    return np.array([float(loss) for loss in found])

"""Whether this processor rounds a row of a matrix product in one way, however many other rows the product has.

Where it does, a row that is computed again with other rows has the same bits. Kernels for older instructions, and
several threads, cut a product by its size. A test that a thing changes nothing compares with ``rounding``: no bit
where the model itself rounds alike in batches of any size, and what float32 leaves after a few blocks elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from support import naive
from torch import nn

_BATCHES = (2, 3, 5, 8, 13)
_SHORTEST = 4
"""Tokens below which no kernel rounds alike: one row is a product of its own."""
_LEFT = 4e-6


@torch.no_grad()
def rounding(hf: nn.Module, lengths: Sequence[int]) -> float:
    """Return what may be left of zero in float32, as a share of the value.

    Args:
        lengths: tokens of the prompts that the test computes; tails of them are shorter.
    """
    for length in range(_SHORTEST, max(lengths) + 1):
        ids = (torch.arange(length) % 7 + 1).tolist()
        alone = naive.logits(hf, ids)
        for rows in _BATCHES:
            batch = hf(input_ids=torch.tensor([ids] * rows), use_cache=False).logits
            if not all(torch.equal(row, alone) for row in batch):
                return _LEFT
    return 0.0

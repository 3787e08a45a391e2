"""The memory that autograd keeps is counted where it is known by hand."""

from __future__ import annotations

import torch
from torch import nn

from bathyscope.gradients.saved import SavedBytes


def test_each_storage_counts_once_and_weights_not_at_all() -> None:
    linear = nn.Linear(8, 8, bias=False).requires_grad_(False)
    leaf = torch.randn(5, 8, requires_grad=True)
    saved = SavedBytes(linear)
    with saved:
        grown = linear(leaf).exp()  # keeps its result
        saved.mark()
        product = grown * grown  # keeps the same storage again
        saved.mark()
        product.sigmoid().sum()
        saved.mark()
    assert saved.marked == [5 * 8 * 4, 0, 5 * 8 * 4]


def test_nothing_is_counted_afterwards() -> None:
    saved = SavedBytes(nn.Identity())
    with saved:
        saved.mark()
    torch.randn(3, requires_grad=True).exp()
    saved.mark()
    assert saved.marked == [0, 0]

"""The memory that autograd keeps is counted where it is known by hand."""

from __future__ import annotations

import torch
from torch import nn

from bathyscope.gradients.saved import saved_bytes


def test_each_storage_counts_once_and_weights_not_at_all() -> None:
    linear = nn.Linear(8, 8, bias=False).requires_grad_(False)
    leaf = torch.randn(5, 8, requires_grad=True)
    with saved_bytes(linear) as since:
        grown = linear(leaf).exp()  # keeps its result
        assert since() == 5 * 8 * 4
        product = grown * grown  # keeps the same storage again
        assert since() == 0
        product.sigmoid().sum()
        assert since() == 5 * 8 * 4


def test_nothing_is_counted_afterwards() -> None:
    with saved_bytes(nn.Identity()) as since:
        assert since() == 0
    torch.randn(3, requires_grad=True).exp()
    assert since() == 0

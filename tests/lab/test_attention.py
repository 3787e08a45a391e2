from __future__ import annotations

import pytest
import torch

from bathyscope.lab.attention import QUERY_BLOCK, blockwise_causal_attention


def inputs(T: int, H: int = 6, K: int = 3, D: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((2, H, T, D), (2, K, T, D), (2, K, T, D))
    query, key, value = (torch.randn(size, generator=generator) for size in sizes)
    return query, key, value


@pytest.mark.parametrize("T", [1, QUERY_BLOCK - 1, QUERY_BLOCK, 2 * QUERY_BLOCK + 5])
def test_equals_torch_with_its_gradients(T: int) -> None:
    given = [tensor.requires_grad_() for tensor in inputs(T)]
    ours, weights = blockwise_causal_attention(torch.nn.Identity(), *given, None, scaling=0.3)
    assert weights is None
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *given, is_causal=True, scale=0.3, enable_gqa=True
    ).transpose(1, 2)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    direction = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((ours * direction).sum(), given)
    expected = torch.autograd.grad((theirs * direction).sum(), given)
    for gradient, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, wanted, atol=1e-5, rtol=1e-4)


def test_no_token_sees_a_later_one() -> None:
    T, changed = QUERY_BLOCK + 40, QUERY_BLOCK + 7
    query, key, value = inputs(T)
    before, _ = blockwise_causal_attention(torch.nn.Identity(), query, key, value, None, scaling=0.3)
    for tensor in (query, key, value):
        tensor[:, :, changed:] += 1.0
    after, _ = blockwise_causal_attention(torch.nn.Identity(), query, key, value, None, scaling=0.3)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert not torch.allclose(before[:, changed:], after[:, changed:])

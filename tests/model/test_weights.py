"""The hash of the weights sees every value of every tensor, and the same reading finds what is no number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support import zoo
from torch import Tensor, nn

from bathyscope.model import weight_hash
from bathyscope.model.weights import WeightReading


def one(weight: Tensor) -> nn.Module:
    """A module that holds nothing but this tensor."""
    holder = nn.Module()
    holder.weight = nn.Parameter(weight, requires_grad=False)
    return holder


def test_the_hash_follows_the_weights() -> None:
    first, same, other = (zoo.entry("llama").build(seed=seed) for seed in (0, 0, 1))
    assert weight_hash(first) == weight_hash(same)
    assert weight_hash(first) != weight_hash(other)
    with torch.no_grad():
        same.model.layers[4].mlp.down_proj.weight[-1, -1] += 1e-3
    assert weight_hash(first) != weight_hash(same)
    assert weight_hash(first) != weight_hash(zoo.entry("llama").build(dtype=torch.bfloat16))


def test_the_hash_follows_buffers_that_a_checkpoint_carries() -> None:
    first, other = (zoo.entry("deepseek_v3").build() for _ in range(2))
    assert weight_hash(first) == weight_hash(other)
    buffers = [name for name, _ in other.named_buffers() if name in other.state_dict()]
    assert buffers
    other.get_buffer(buffers[0]).add_(1.0)
    assert weight_hash(first) != weight_hash(other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("change", [Tensor.neg, lambda w: 4 * w, lambda w: torch.cat([w[:-1], w[-1:] + 1])])
def test_every_value_of_a_large_tensor_counts(dtype: torch.dtype, change: Callable[[Tensor], Tensor]) -> None:
    """Above 16 MiB too: a head that is negated or multiplied, and its last value alone."""
    weight = torch.linspace(1.0, 2.0, (9 << 20) + 5).to(dtype)
    assert weight_hash(one(weight)) != weight_hash(one(change(weight)))


def test_the_hash_is_that_of_the_values_however_they_lie() -> None:
    weight = torch.arange(24.0).reshape(2, 3, 4)
    turned = weight.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert not turned.is_contiguous()
    assert weight_hash(one(weight)) == weight_hash(one(turned))
    assert weight_hash(one(weight)) != weight_hash(one(weight.reshape(4, 3, 2)))
    assert weight_hash(one(weight[0, 0, ::2])) == weight_hash(one(torch.tensor([0.0, 2.0])))


def test_tensors_without_values_or_dimensions() -> None:
    assert weight_hash(one(torch.zeros(0))) != weight_hash(one(torch.zeros(0, 3)))
    assert weight_hash(one(torch.tensor(1.0))) != weight_hash(one(torch.tensor(2.0)))


def test_bad_weights_are_counted() -> None:
    hf = zoo.entry("llama").build()
    assert WeightReading(hf).bad is None
    with torch.no_grad():
        hf.model.layers[3].mlp.up_proj.weight[:2, 5] = float("nan")
        hf.model.layers[3].mlp.up_proj.weight[4, 6] = float("-inf")
    assert WeightReading(hf).bad == f"model.layers.3.mlp.up_proj.weight (3 of {96 * 64} values)"


def test_bad_weights_are_counted_beyond_the_first_chunk() -> None:
    weight = torch.zeros((5 << 20) + 3)
    weight[0] = weight[-1] = float("inf")
    assert WeightReading(one(weight)).bad == f"weight (2 of {(5 << 20) + 3} values)"


def test_numbers_of_eight_bits() -> None:
    weight = torch.tensor([1.0, 2.0, float("nan")]).to(torch.float8_e4m3fn)
    assert WeightReading(one(weight)).bad == "weight (1 of 3 values)"
    assert WeightReading(one(weight[:2])).bad is None


def test_no_tensor_is_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tensor of 40 MiB no test of finiteness sees more than a chunk."""
    seen: list[int] = []
    isfinite = torch.isfinite
    monkeypatch.setattr(torch, "isfinite", lambda value: (seen.append(value.numel()), isfinite(value))[1])
    assert WeightReading(one(torch.zeros(5, 1 << 21))).bad is None
    assert max(seen) * 4 <= 1 << 24
    assert sum(seen) == 5 << 21

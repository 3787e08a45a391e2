"""A mark changes with every word, and weights that are as they were are not read again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support import zoo
from support.fake_accelerator import Accelerator
from torch import Tensor, nn

from bathyscope.model import weights
from bathyscope.model.marks import _WORDS, Mark, _factors, marks_of

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.uint8, torch.bool, torch.int64]


def mark(value: Tensor) -> Mark:
    return marks_of({"one": value})["one"]


def test_a_mark_is_the_sum_of_words_times_their_numbers() -> None:
    """In Python's own whole numbers, over two chunks, the last of which is no whole number of words."""
    data = torch.randint(0, 256, (4 * _WORDS + 10,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    raw, factors = data.numpy().tobytes() + b"\0\0", _factors(torch.device("cpu")).tolist()
    assert all(factor % 2 for factor in factors[:1000])
    wanted = []
    for first in (0, 4 * _WORDS):
        chunk = raw[first : first + 4 * _WORDS]
        words = [int.from_bytes(chunk[i : i + 4], "little", signed=True) for i in range(0, len(chunk), 4)]
        total = sum(word * factor for word, factor in zip(words, factors)) % (1 << 64)
        wanted.append(total - (1 << 64) * (total >= 1 << 63))
    assert mark(data) == ((4 * _WORDS + 10,), torch.uint8, tuple(wanted))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_bit_anywhere_changes_the_mark(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    value = torch.randint(0, 2, (7, 11), generator=draw).to(dtype)
    usual, bytes_N = mark(value), value.view(torch.uint8).view(-1)
    assert mark(value.clone()) == usual
    for place in range(0, len(bytes_N), 5):
        for bit in (1, 128):
            bytes_N[place] ^= bit
            assert mark(value) != usual
            bytes_N[place] ^= bit
    assert mark(value) == usual


@pytest.mark.parametrize(
    "change",
    [
        Tensor.neg,
        lambda w: w.flip(0),
        lambda w: torch.cat([w[1:2], w[:1], w[2:]]),
        lambda w: torch.cat([w[:, 1:2], w[:, :1], w[:, 2:]], 1),
        lambda w: w.view(512, 2048),
        lambda w: torch.roll(w, 1024, 0),
        lambda w: w.view(torch.int32),
    ],
    ids=["negated", "turned", "two rows", "two columns", "another shape", "chunks", "another dtype"],
)
def test_whatever_is_done_to_all_of_it_changes_the_mark(change: Callable[[Tensor], Tensor]) -> None:
    value = torch.randn(2048, 512, generator=torch.Generator().manual_seed(0))
    assert mark(change(value).contiguous()) != mark(value)


def test_tensors_may_lie_in_any_way() -> None:
    value = torch.arange(24.0).reshape(4, 6)
    turned = value.T.contiguous().T
    assert not turned.is_contiguous()
    before = mark(turned)
    assert mark(turned) == before
    turned[3, 5] = 0.0
    assert mark(turned) != before
    odd = torch.zeros(25, dtype=torch.uint8)
    odd[1:] = torch.arange(24, dtype=torch.uint8)
    assert odd[1:].storage_offset() % 4
    assert mark(odd[1:]) == mark(torch.arange(24, dtype=torch.uint8))
    assert mark(odd[1:24]) != mark(odd[2:25])
    assert mark(torch.zeros(0)) != mark(torch.zeros(0, 3))
    assert mark(torch.tensor(1.0)) != mark(torch.tensor(2.0))


def test_an_accelerator_is_waited_for_once_and_gives_no_weight_away() -> None:
    hf = zoo.entry("llama").build()
    own = marks_of(dict(hf.named_parameters()))
    with Accelerator() as device:
        there = device.moved(hf)
        marks_of({"first": next(there.parameters())})  # the numbers are sent once
        with device.counted() as counts:
            assert marks_of(dict(there.named_parameters())) == own
        assert (counts.waits.total(), counts.copies_out.total(), counts.copies_in.total()) == (1, 0, 0)


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tensors that are read from here on."""
    seen: list[str] = []
    own = weights._read
    monkeypatch.setattr(weights, "_read", lambda name, value: (seen.append(name), own(name, value))[1])
    return seen


def test_only_what_has_changed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hf, fresh = zoo.entry("llama").build(), zoo.entry("llama").build()
    first = weights.weight_hash(hf)
    seen = reads(monkeypatch)
    assert weights.weight_hash(hf) == first
    assert seen == []
    changed = "model.layers.4.mlp.down_proj.weight"
    hf.get_parameter(changed).data[-1, -1] += 1e-3  # past torch's own count of changes
    fresh.get_parameter(changed).data[-1, -1] += 1e-3
    second = weights.weight_hash(hf)
    assert seen == [changed]
    assert second == weights.weight_hash(fresh) != first
    hf.get_parameter(changed).data[0, 0] = torch.nan
    for _ in range(2):  # what was found bad is found again
        assert str(weights.WeightReading(hf).bad).startswith(changed)


def test_names_and_kinds_of_tensors_count() -> None:
    holder, value = nn.Module(), torch.zeros(4, 4)
    holder.weight = nn.Parameter(value)
    first = weights.weight_hash(holder)
    holder.other = nn.Parameter(value.clone())
    second = weights.weight_hash(holder)
    del holder.weight
    third = weights.weight_hash(holder)
    assert len({first, second, third}) == 3
    holder.other = nn.Parameter(value.view(2, 8).clone())
    assert weights.weight_hash(holder) not in {first, second, third}

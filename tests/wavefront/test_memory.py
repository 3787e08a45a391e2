"""Amounts of memory, and what a token of a call takes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support import waves

from bathyscope.errors import OptionError
from bathyscope.model.memory import as_bytes, bytes_per_token, free_bytes, tokens_that_fit


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("20GB", 20 * 10**9),
        ("512MiB", 512 << 20),
        ("1.5 gb", 1_500_000_000),
        ("2G", 2 * 10**9),
        ("4096", 4096),
        (77, 77),
    ],
)
def test_amounts(given: str | int, wanted: int) -> None:
    assert as_bytes(given) == wanted


@pytest.mark.parametrize("given", ["", "GB", "-3GB", "0", "20 apples", "1e9", "0.1", True, 0])
def test_no_amounts(given: str | int) -> None:
    with pytest.raises(OptionError, match=r"memory=.* is no amount of memory; give it as 20GB, 512MiB or a number"):
        as_bytes(given)


def test_a_token_takes_the_mlps_arrays_and_four_of_the_streams() -> None:
    anatomy = waves.loaded("llama").anatomy
    config = anatomy.model.config
    assert bytes_per_token(anatomy, 50) == 4 * (3 * config.intermediate_size + 4 * config.hidden_size)


def test_attention_in_the_open_takes_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    anatomy = waves.loaded("llama").anatomy
    plain, config = bytes_per_token(anatomy, 50), anatomy.model.config
    monkeypatch.setattr(config, "_attn_implementation_internal", "eager")
    assert bytes_per_token(anatomy, 50) - plain == config.num_attention_heads * 50 * 4 * 3


def test_without_a_word_for_it_the_widest_matrix_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    anatomy = waves.loaded("bloom").anatomy
    monkeypatch.setattr(anatomy.model.config, "_attn_implementation_internal", "sdpa")
    widest = max(max(p.shape) for p in anatomy.blocks[0].parameters() if p.ndim > 1)
    assert bytes_per_token(anatomy, 9) == 4 * (3 * widest + 4 * anatomy.width)


def test_one_row_goes_always() -> None:
    anatomy = waves.loaded("llama").anatomy
    one = bytes_per_token(anatomy, 30)
    assert [tokens_that_fit(anatomy, 30, room * one, 100) for room in (0, 29, 64, 1000)] == [30, 30, 64, 100]
    # in low precision a control rides with them
    half = replace(anatomy, dtype=torch.bfloat16)
    one = bytes_per_token(half, 30)
    assert [tokens_that_fit(half, 30, room * one, 100) for room in (0, 59, 94, 1000)] == [30, 30, 64, 100]


@pytest.mark.parametrize(
    ("dtype", "grouped", "device", "open_"),
    [
        (torch.float32, True, "cuda", True),
        (torch.float32, False, "cuda", False),
        (torch.float64, False, "cuda", True),
        (torch.bfloat16, True, "cuda", False),
        (torch.float32, True, "cpu", False),
    ],
)
def test_attention_that_cuda_has_no_kernel_for_is_in_the_open(
    dtype: torch.dtype, grouped: bool, device: str, open_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    anatomy = replace(waves.loaded("llama").anatomy, dtype=dtype)
    config = anatomy.model.config
    monkeypatch.setattr(config, "_attn_implementation_internal", "sdpa")
    monkeypatch.setattr(config, "num_key_value_heads", config.num_attention_heads // (2 if grouped else 1))
    weights = bytes_per_token(anatomy, 50, torch.device(device)) - bytes_per_token(anatomy, 50)
    assert weights == open_ * config.num_attention_heads * 50 * max(4, dtype.itemsize) * 3


def test_the_device_says_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what torch has taken of it and does not use: after a survey that is most of it."""
    told = {"mem_get_info": (123, 456), "memory_reserved": 1000, "memory_allocated": 900}
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(**{name: lambda device, n=n: n for name, n in told.items()}))
    assert free_bytes(torch.device("cuda")) == 123 + 100

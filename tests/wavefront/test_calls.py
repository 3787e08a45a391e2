"""How many rows go into a call, and where the control rides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import waves

from bathyscope import ModelError
from bathyscope.wavefront.calls import CallPolicy, even_pieces, in_pieces, while_memory_lasts


@given(st.integers(1, 200), st.integers(1, 50))
def test_even_pieces(rows: int, most: int) -> None:
    pieces = list(even_pieces(rows, most))
    assert [first for first, _ in pieces] == [0, *(last for _, last in pieces[:-1])]
    assert pieces[-1][1] == rows
    sizes = [last - first for first, last in pieces]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == -(-rows // most)


@pytest.mark.parametrize(
    ("dtype", "own_control"),
    [(torch.float32, False), (torch.float64, False), (torch.bfloat16, True), (torch.float16, True)],
)
def test_low_precision_needs_a_control_in_every_call(dtype: torch.dtype, own_control: bool) -> None:
    anatomy = waves.loaded("llama").anatomy
    policy = CallPolicy.for_model(anatomy, dtype, torch.device("cpu"))
    assert policy.control_in_every_call == own_control
    assert 400 <= policy.tokens <= 8000
    assert CallPolicy.for_model(anatomy, dtype, torch.device("cpu"), 17).tokens == 17
    assert CallPolicy.for_model(anatomy, dtype, torch.device("cuda")).tokens > policy.tokens
    # where the control rides along, smaller calls would run it more often
    assert (policy.cached is None) == own_control


@pytest.mark.parametrize(("width", "inner", "in_call"), [(64, 128, 4800), (576, 1536, 1820), (4096, 11008, 1024)])
def test_calls_on_a_cpu_stay_in_its_cache(width: int, inner: int, in_call: int) -> None:
    anatomy: Any = SimpleNamespace(
        dtype=torch.float32, width=width, model=SimpleNamespace(config=SimpleNamespace(intermediate_size=inner))
    )
    policy = CallPolicy.for_model(anatomy, torch.float32, torch.device("cpu"))
    assert (policy.tokens, policy.in_call) == (4800, in_call)
    assert CallPolicy.for_model(anatomy, torch.float32, torch.device("cpu"), 100).in_call == 100
    assert CallPolicy.for_model(anatomy, torch.float32, torch.device("cuda")).in_call == 32768


def test_what_is_out_of_memory_is_done_again_in_halves_and_in_order() -> None:
    tried, done = [], []

    def do(first: int, last: int) -> None:
        tried.append((first, last))
        if last - first > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        done.extend(range(first, last))

    with pytest.warns(UserWarning, match="Looking ran out of memory; it continues in smaller pieces"):
        in_pieces(20, 12, do, "Looking", torch.device("cpu"))
    assert done == list(range(20))
    assert tried[:2] == [(0, 10), (0, 5)]
    assert sum(last - first > 3 for first, last in tried) == 2  # what is learnt of one piece holds for all that follow


def test_a_single_one_that_is_out_of_memory_is_told_with_numbers() -> None:
    def do(first: int, last: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with (
        pytest.warns(UserWarning, match="smaller pieces"),
        pytest.raises(ModelError, match=r"^Looking does not fit into the memory of cpu, where .* GB are free\. Give"),
    ):
        in_pieces(2, 2, do, "Looking", torch.device("cpu"))


def test_the_hosts_memory_runs_out_too_and_no_other_error_is_taken_for_it() -> None:
    reached = False
    with while_memory_lasts():
        torch.empty(1 << 45, dtype=torch.uint8)
        reached = True
    assert not reached
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), while_memory_lasts():
        torch.ones(2, 3) @ torch.ones(2, 3)

"""How many rows go into a call, and where the control rides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.wavefront.calls import CallPolicy, even_pieces


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
    policy = CallPolicy.for_model(dtype, torch.device("cpu"))
    assert policy.control_in_every_call == own_control
    assert 400 <= policy.tokens <= 8000
    assert CallPolicy.for_model(dtype, torch.device("cpu"), 17).tokens == 17
    assert CallPolicy.for_model(dtype, torch.device("cuda")).tokens > policy.tokens

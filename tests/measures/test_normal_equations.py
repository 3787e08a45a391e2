"""Streamed sums are the sums of all tokens at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from support.sums import sums_of

from bathyscope.measures.normal_equations import NormalEquations

SOURCES, TARGETS, D, E, N = 3, 2, 5, 4, 97


def states(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources [S, N, D] and targets [T, N, E] with a channel far from 0, as a massive activation is."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(SOURCES, N, D, generator=draw, dtype=torch.float64)
    y = torch.randn(TARGETS, N, E, generator=draw, dtype=torch.float64)
    x[:, :, 1] += 1e5
    y[:, :, 3] -= 1e5
    return x.to(dtype), y.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cuts", [(), (1,), (30, 31, 96), (50,)])
def test_in_pieces_as_all_at_once(cuts: tuple[int, ...], dtype: torch.dtype) -> None:
    x, y = states(dtype)
    streamed = NormalEquations(SOURCES, TARGETS, (D, E), torch.device("cpu"))
    for first, last in pairwise((0, *cuts, N)):
        streamed.add(list(x[:, first:last]), list(y[:, first:last]))
    for s in range(SOURCES):
        for t, found in enumerate(streamed.of(s)):
            expected = sums_of(x[s].double().numpy(), y[t].double().numpy())
            assert found.count == N
            for name in ("mean_x_D", "mean_y_E", "xx_DD", "xy_DE", "yy"):
                # of tokens of size 1e5 in double precision, after their squares of 1e10 have cancelled
                np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-8)
            assert abs(found.xx_DD).max() < 1e3 or dtype is torch.bfloat16


def test_a_token_of_weight_three_counts_as_three_tokens() -> None:
    x, y = states(torch.float64)
    weight_N = torch.arange(N) % 4
    weighted, repeated = (NormalEquations(SOURCES, TARGETS, (D, E), torch.device("cpu")) for _ in range(2))
    for first, last in pairwise((0, 30, 31, N)):  # a piece of weight 2 alone among them
        weighted.add(list(x[:, first:last]), list(y[:, first:last]), weight_N[first:last].double())
    places = torch.repeat_interleave(torch.arange(N), weight_N)
    repeated.add(list(x[:, places]), list(y[:, places]))
    for s in range(SOURCES):
        for found, expected in zip(weighted.of(s), repeated.of(s), strict=True):
            assert found.count == expected.count == len(places)
            for name in ("mean_x_D", "mean_y_E", "xx_DD", "xy_DE", "yy"):
                np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-8)


def test_what_one_source_takes() -> None:
    one = NormalEquations(1, TARGETS, (D, E), torch.device("cpu"))
    assert one.bytes(TARGETS, (D, E)) == one.xx_SDD.nbytes + one.xy_STDE.nbytes


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_channel_of_rounding_alone_has_no_weight(dtype: torch.dtype) -> None:
    """What cancels in a block is 0 for some prompts and a unit in the last place for others, by the sizes of calls."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(3, N, D, generator=draw, dtype=torch.float64).to(dtype)
    unit = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    small = torch.randint(-4, 5, (3, N), generator=draw) * unit
    fit, choose, read = x
    fit[:, 2], choose[:, 2], read[:, 2] = small[0] * 1e-17, small[1], small[2]
    weak = 300 * unit
    fit[:, 3], choose[:, 3], read[:, 3] = fit[:, 3] * weak, choose[:, 3] * weak, read[:, 3] * weak
    target = torch.tensor([1.0, -2.0, 0.0, 1 / weak, 3.0], dtype=torch.float64)
    sums = [NormalEquations(1, 1, (D, 1), torch.device("cpu")) for _ in range(2)]
    for equations, states_ND in zip(sums, (fit, choose)):
        equations.add([states_ND], [(states_ND.double() @ target)[:, None]])
    assert sums[0].solve(0, sums[1], (0.0, 1e-3)) == [0.0]
    weights = sums[0].xy_STDE[0, 0, :, 0]
    assert weights[2] == 0
    mean = sums[0].mean_y_TE[0] - sums[0].mean_x_SD[0] @ weights
    torch.testing.assert_close(read.double() @ weights + mean, read.double() @ target, rtol=1e-6, atol=1e-6)

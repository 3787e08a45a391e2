"""Paths lead from means to activations, rules integrate polynomials, and rows of paths are split into calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import waves

from bathyscope.wavefront.gradients.integrate import Quadrature, _split, gauss_legendre, left_riemann, path_of
from bathyscope.wavefront.gradients.trajectory import Trajectory


def trajectory() -> Trajectory:
    draw = torch.Generator().manual_seed(0)

    def vectors() -> torch.Tensor:
        return torch.randn(5, 64, generator=draw)

    return Trajectory(
        0, 5, [vectors() for _ in range(6)], {p: [vectors() for _ in range(5)] for p in ("attention", "mlp")}
    )


@pytest.mark.parametrize(("baseline", "axis"), [("tokens", 0), ("channels", 1)])
def test_a_path_of_the_blocks_output(baseline: str, axis: int) -> None:
    kept = trajectory()
    path = path_of(waves.loaded("llama").anatomy, kept, 2, "block", baseline, 4)
    start, half, end = path.points(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)).detach()
    h = kept.boundaries[3]
    mean = h.mean(axis, keepdim=True).expand_as(h)[:4]  # over all tokens, also those that are then left out
    assert torch.equal(end, h[:4])
    assert torch.allclose(start, mean, atol=1e-6)
    assert torch.allclose(half, (h[:4] + mean) / 2, atol=1e-6)


def test_a_contribution_that_is_added_last_moves_the_stream_by_as_much() -> None:
    kept = trajectory()
    path = path_of(waves.loaded("llama").anatomy, kept, 1, "mlp", "tokens", 5)
    assert path.part is None
    (start,) = path.points(torch.zeros(1, dtype=torch.float64)).detach()
    m = kept.parts["mlp"][1]
    assert torch.allclose(start, kept.boundaries[2] - m + m.mean(0), atol=1e-5)


def test_an_earlier_contribution_is_followed_itself() -> None:
    kept = trajectory()
    path = path_of(waves.loaded("llama").anatomy, kept, 1, "attention", "tokens", 5)
    assert path.part == "attention"
    assert torch.equal(path.end_TD, kept.parts["attention"][1])
    assert path_of(waves.loaded("gpt_neox").anatomy, kept, 1, "attention", "tokens", 5).part is None


def integral_of_power(rule: Quadrature, power: int) -> float:
    return float(np.dot(rule.weights, np.power(rule.nodes, power)))


@pytest.mark.parametrize("nodes", [1, 2, 5, 32, 128])
def test_gauss_legendre_is_exact_up_to_its_degree_and_not_beyond(nodes: int) -> None:
    rule = gauss_legendre(nodes)
    assert sum(rule.weights) == pytest.approx(1, abs=1e-14)
    assert 0 < min(rule.nodes) <= max(rule.nodes) < 1
    for power in {0, 1, nodes, 2 * nodes - 1}:
        assert integral_of_power(rule, power) == pytest.approx(1 / (power + 1), rel=1e-12)
    if nodes <= 5:
        assert integral_of_power(rule, 2 * nodes) != pytest.approx(1 / (2 * nodes + 1), rel=1e-6)


@pytest.mark.parametrize("steps", [1, 4, 256])
def test_the_left_sum_begins_at_the_baseline_and_stops_one_step_short(steps: int) -> None:
    rule = left_riemann(steps)
    assert rule.nodes == tuple(k / steps for k in range(steps))
    assert rule.weights == (1 / steps,) * steps
    assert integral_of_power(rule, 1) == pytest.approx((1 - 1 / steps) / 2)


@pytest.mark.parametrize("nodes", [1, 4, 7])
@pytest.mark.parametrize("size", [1, 3, 5, 21])
def test_every_node_of_every_path_is_in_one_call(nodes: int, size: int) -> None:
    paths = 3
    seen = []
    for first in range(0, paths * nodes, size):
        last = min(first + size, paths * nodes)
        pieces = _split(first, last, nodes)
        assert sum(own.stop - own.start for _, own in pieces) == last - first
        seen += [(s, node) for s, own in pieces for node in range(own.start, own.stop)]
    assert seen == [(s, node) for s in range(paths) for node in range(nodes)]

"""Rules of integration on polynomials, whose integrals are known."""

from __future__ import annotations

import numpy as np
import pytest

from bathyscope.gradients.quadrature import Quadrature, gauss_legendre, left_riemann


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

"""Moments against scipy, however the values are cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from bathyscope.statistics.moments import Moments


def values(seed: int = 0, offset: float = 0.0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    heavy = np.stack([draw.normal(size=1000), draw.standard_t(3, 1000), draw.gamma(0.3, size=1000)])
    return heavy + offset


def assert_moments(found: Moments, expected: np.ndarray, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(found.mean, expected.mean(-1), rtol=rtol)
    np.testing.assert_allclose(found.variance, expected.var(-1), rtol=rtol)
    np.testing.assert_allclose(found.skew, stats.skew(expected, axis=-1), rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(found.kurtosis, stats.kurtosis(expected, axis=-1, fisher=False), rtol=rtol)


def test_of_one_piece() -> None:
    found = Moments.of(values())
    assert found.count == 1000
    assert_moments(found, values())


@pytest.mark.parametrize("edges", [(1,), (500,), (999,), (1, 2, 3, 700), tuple(range(50, 1000, 50))])
def test_merged_pieces_are_the_whole(edges: tuple[int, ...]) -> None:
    first, *rest = [Moments.of(piece) for piece in np.split(values(), edges, axis=-1)]
    for piece in rest:
        first = first.merged(piece)
    assert first.count == 1000
    assert_moments(first, values())


def test_a_large_mean_costs_no_digits_but_those_the_values_lost() -> None:
    """Sums of raw powers would lose everything here: 1e6⁴ against a fourth moment of about 3."""
    shifted = values(offset=1e6)
    merged = Moments.of(shifted[:, :300]).merged(Moments.of(shifted[:, 300:]))
    np.testing.assert_allclose(merged.variance, values().var(-1), rtol=1e-8)
    np.testing.assert_allclose(merged.skew, stats.skew(values(), axis=-1), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(merged.kurtosis, stats.kurtosis(values(), axis=-1, fisher=False), rtol=1e-6)


def test_torch_and_numpy_agree() -> None:
    found = Moments.of(torch.from_numpy(values()))
    assert isinstance(found.mean, np.ndarray)
    assert_moments(found, values())


def test_equal_values_have_no_shape() -> None:
    found = Moments.of(np.full((1, 7), 2.0))
    assert found.variance.tolist() == [0.0]
    assert np.isnan(found.skew).all()
    assert np.isnan(found.kurtosis).all()

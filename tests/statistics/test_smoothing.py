"""Smoothed curves: against their definitions, and the curves that they must leave as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bathyscope.statistics.smoothing import falling_fit, loess_fit, rising_fit

CURVES = arrays(float, st.tuples(st.integers(1, 12)), elements=st.sampled_from([0.0, 1.0, 2.5]) | st.floats(-9, 9))


def by_pooling(curve: list[float]) -> list[float]:
    """The nearest curve that never falls: neighbours that fall are pooled to their mean until none do."""
    pools: list[list[float]] = []
    for value in curve:
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [float(np.mean(pool)) for pool in pools for _ in pool]


@given(CURVES)
def test_isotonic_fits_pool_what_goes_the_wrong_way(curve: np.ndarray) -> None:
    np.testing.assert_allclose(rising_fit(curve), by_pooling(list(curve)), atol=1e-9)
    np.testing.assert_allclose(falling_fit(curve), -np.array(by_pooling(list(-curve))), atol=1e-9)


def test_a_dip_is_filled_and_a_first_peak_stays() -> None:
    np.testing.assert_allclose(falling_fit([9, 4, 6, 5, 1]), [9, 5, 5, 5, 1])
    np.testing.assert_allclose(falling_fit([30, 6, 6, 2]), [30, 6, 6, 2])


def local_line(curve: np.ndarray, at: int, neighbours: int) -> float:
    """The value at ``at`` of the line fitted to the nearest entries with tricube weights."""
    place = np.arange(len(curve), dtype=float)
    first = min(max(0, at - (neighbours - 1) // 2), len(curve) - neighbours)
    reach = max(at - first, first + neighbours - 1 - at)
    weights = (1 - np.minimum(np.abs(place - at) / reach, 1) ** 3) ** 3
    inside = (place >= first) & (place < first + neighbours)
    return float(np.polyval(np.polyfit(place, curve, 1, w=np.sqrt(weights * inside)), at))


@pytest.mark.parametrize(("blocks", "neighbours"), [(5, 5), (12, 5), (28, 7), (60, 15), (100, 25)])
def test_loess_is_a_local_line_at_each_entry(blocks: int, neighbours: int) -> None:
    curve = np.random.default_rng(blocks).normal(size=blocks).cumsum()
    found = loess_fit(curve)
    middle = [at for at in range(blocks) if (neighbours - 1) // 2 <= at < blocks - (neighbours - 1) // 2]
    for at in (0, *middle, blocks - 1):
        assert found[at] == pytest.approx(local_line(curve, at, neighbours), abs=1e-9), at


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 9, 64])
def test_loess_leaves_straight_lines_and_very_short_curves(blocks: int) -> None:
    line = 0.3 * np.arange(blocks) - 2
    np.testing.assert_allclose(loess_fit(line), line, atol=1e-9)
    if blocks <= 3:
        curve = np.array([4.0, -1.0, 7.0])[:blocks]
        np.testing.assert_array_equal(loess_fit(curve), curve)


@pytest.mark.parametrize("fit", [falling_fit, rising_fit, loess_fit])
def test_a_batch_is_its_curves_one_by_one(fit) -> None:  # type: ignore[no-untyped-def]
    curves = np.random.default_rng(0).normal(size=(2, 3, 10))
    curves[1, 0, 4], curves[1, 2, 0] = np.nan, np.inf
    found = fit(curves)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(found[index], fit(curves[index]), rtol=0, atol=1e-12)
    broken = np.isnan(found)
    assert broken[1, 0].all()
    assert broken[1, 2].all()
    assert broken.sum() == 20

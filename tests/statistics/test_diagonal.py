"""Alignment of best partners with relative depth, where it is known."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from bathyscope.statistics.diagonal import alignment, deviation_by_chance, deviation_of_one_partner

Array = np.ndarray


def errors_with(best: list[int], others: int) -> Array:
    """[A, B] with the smallest error of row a at ``best[a]``."""
    return np.abs(np.arange(others)[None] - np.array(best)[:, None]) + 0.5


def test_equal_relative_depth() -> None:
    found = alignment(errors_with([0, 2, 4, 6, 8], 9))
    np.testing.assert_array_equal(found.best, [0, 2, 4, 6, 8])
    assert (float(found.slope), float(found.deviation), float(found.rank_correlation)) == pytest.approx((1, 0, 1))


def test_equal_absolute_depth_is_half_the_slope() -> None:
    found = alignment(errors_with([0, 1, 2, 3, 4], 9))
    assert float(found.slope) == pytest.approx(0.5)
    assert float(found.deviation) == pytest.approx(np.mean([0, 0.125, 0.25, 0.375, 0.5]))
    assert float(found.rank_correlation) == pytest.approx(1)


def test_one_partner_for_all_has_no_slope_and_no_rank_correlation() -> None:
    found = alignment(errors_with([3] * 5, 7))
    assert float(found.slope) == pytest.approx(0)
    assert np.isnan(found.rank_correlation)
    assert float(found.deviation) == pytest.approx(deviation_of_one_partner(5, 7))
    assert float(alignment(errors_with([6] * 5, 7)).deviation) == pytest.approx(0.5)


def test_leading_dims_and_scipys_statistics() -> None:
    errors = np.random.default_rng(0).random((4, 3, 6, 9))
    found = alignment(errors)
    assert found.best.shape == (4, 3, 6)
    assert found.slope.shape == found.deviation.shape == found.rank_correlation.shape == (4, 3)
    own = np.arange(6) / 5
    for place in np.ndindex(4, 3):
        partners = errors[place].argmin(-1) / 8
        assert found.slope[place] == pytest.approx(stats.linregress(own, partners).slope)
        assert found.rank_correlation[place] == pytest.approx(stats.spearmanr(own, partners).statistic)
        assert found.deviation[place] == pytest.approx(np.abs(own - partners).mean())


def test_of_equal_errors_the_first_and_never_a_missing_one() -> None:
    errors = np.array([[2.0, 1.0, 1.0], [np.nan, 5.0, 4.0]])
    np.testing.assert_array_equal(alignment(errors).best, [1, 2])


def test_a_boundary_without_any_error_has_no_partner() -> None:
    errors = np.stack([errors_with([0, 2, 4], 5)] * 2)
    errors[1, 1] = np.nan
    found = alignment(errors)
    np.testing.assert_array_equal(found.best, [[0, 2, 4], [0, -1, 4]])
    for values in (found.slope, found.deviation, found.rank_correlation):
        np.testing.assert_array_equal(np.isnan(values), [False, True])


def test_deviation_by_chance_is_that_of_random_partners() -> None:
    draws = np.random.default_rng(1).random((20_000, 6, 11))
    assert float(alignment(draws).deviation.mean()) == pytest.approx(deviation_by_chance(6, 11), abs=2e-3)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 6))
def test_of_errors_equal_up_to_rounding_the_first_counts(seed: int, boundaries: int, others: int) -> None:
    """Rounding moves no partner: errors are multiples of a hundredth, with ties, and noise on them."""
    draw = np.random.default_rng(seed)
    errors = draw.integers(0, 4, (boundaries, others)) / 100
    noisy = errors + draw.uniform(0, 1e-9, errors.shape)
    plain, moved = alignment(errors), alignment(noisy)
    np.testing.assert_array_equal(moved.best, errors.argmin(-1))
    np.testing.assert_array_equal(moved.rank_correlation, plain.rank_correlation)
    assert np.isnan(moved.rank_correlation) == (len({*errors.argmin(-1).tolist()}) == 1)

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bathyscope.statistics.bootstrap import (
    BIAS_FACTOR,
    bootstrap_interval,
    mean_interval,
    small_sample,
)
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sampling import Sampling, resample_counts

ANYWHERE = (-math.inf, math.inf)


def test_counts_are_draws_with_replacement() -> None:
    counts = resample_counts(7, 4000, np.random.default_rng(0))
    assert counts.shape == (4000, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert (counts >= 0).all()
    # Binomial(7, 1/7): mean 1, variance 6/7; each pair of prompts has covariance −1/7.
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.06)
    np.testing.assert_allclose(np.cov(counts.T), np.eye(7) - 1 / 7, atol=0.08)


def test_counts_follow_the_seed() -> None:
    first = resample_counts(5, 10, np.random.default_rng(3))
    assert (first == resample_counts(5, 10, np.random.default_rng(3))).all()
    assert (first != resample_counts(5, 10, np.random.default_rng(4))).any()


@pytest.mark.parametrize("n", [2, 3, 10, 57])
def test_equal_weights_have_the_textbook_correction(n: int) -> None:
    shrinkage, degrees_of_freedom = small_sample(np.full(n, 13.0))
    assert shrinkage == pytest.approx(1 - 1 / n, rel=1e-12)
    assert degrees_of_freedom == pytest.approx(n - 1, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_unequal_weights_agree_with_the_dense_quadratic_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    h = rng.lognormal(sigma=1.0, size=int(rng.integers(2, 20)))
    h /= h.sum()
    residual = np.eye(len(h)) - h[None, :]
    form = residual.T @ np.diag(h**2) @ residual
    shrinkage, degrees_of_freedom = small_sample(100 * h)
    assert shrinkage == pytest.approx(np.trace(form) / (h**2).sum(), rel=1e-9)
    assert degrees_of_freedom == pytest.approx(np.trace(form) ** 2 / np.trace(form @ form), rel=1e-9)


def test_shrinkage_is_the_share_of_variance_that_resampling_finds() -> None:
    rng = np.random.default_rng(1)
    weights = np.array([400.0, 150.0, 90.0, 80.0, 60.0])
    h = weights / weights.sum()
    values = rng.standard_normal((5, 40_000))
    found = (h[:, None] ** 2 * (values - h @ values) ** 2).sum(axis=0)
    shrinkage, degrees_of_freedom = small_sample(weights)
    assert found.mean() / (h**2).sum() == pytest.approx(shrinkage, rel=0.03)
    assert 2 * found.mean() ** 2 / found.var() == pytest.approx(degrees_of_freedom, rel=0.05)


def test_one_long_prompt_among_short_ones_gives_a_finite_correction() -> None:
    shrinkage, degrees_of_freedom = small_sample([1e6, 1.0])
    assert 0 < shrinkage < 1e-5
    assert degrees_of_freedom == pytest.approx(1, rel=1e-3)


def test_the_interval_of_a_plain_mean_is_students() -> None:
    rng = np.random.default_rng(2)
    half = rng.normal(0.0, 2.0, size=6)
    values = 3.0 + np.concatenate([half, -half])
    counts = resample_counts(12, 200_000, rng)
    low, high = bootstrap_interval(
        float(values.mean()), weighted_mean(values, counts), np.ones(12), level=0.9, limits=ANYWHERE
    )
    expected = stats.t.interval(0.9, 11, loc=values.mean(), scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected, abs=0.02)


def test_few_resamples_do_not_narrow_the_interval() -> None:
    """Two resamples one apart from the estimate: √2 by n − 1, and again √2 for two prompts; Student's quantile is 1."""
    found = bootstrap_interval(5.0, np.array([4.0, 6.0]), np.ones(2), level=0.5, limits=ANYWHERE)
    assert found == pytest.approx((3.0, 7.0))


def test_the_interval_of_a_mean_is_students_and_cut_to_what_a_mean_can_be() -> None:
    values = np.random.default_rng(0).exponential(size=12)
    found = mean_interval(values, Sampling(40_000))
    students = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    # it is extended against the bias of the resamples' median, which is small here
    np.testing.assert_allclose(found, students, atol=0.1 * values.std())
    assert mean_interval(values, limits=(0.0, values.mean())).high == values.mean()
    assert mean_interval(values, Sampling(level=0.5)).low > found.low
    assert mean_interval(values, Sampling(seed=3)) == mean_interval(values, Sampling(seed=3)) != mean_interval(values)
    assert all(math.isnan(end) for end in mean_interval(values[:1]))


def test_the_end_away_from_the_bias_moves_and_the_other_stays() -> None:
    spread = np.linspace(-1.0, 1.0, 2001)
    at_estimate = bootstrap_interval(5.0, 5.0 + spread, np.ones(10), level=0.95, limits=ANYWHERE)
    biased_down = bootstrap_interval(5.0, 4.8 + spread, np.ones(10), level=0.95, limits=ANYWHERE)
    biased_up = bootstrap_interval(5.0, 5.2 + spread, np.ones(10), level=0.95, limits=ANYWHERE)
    assert biased_down.low == pytest.approx(at_estimate.low)
    assert biased_down.high == pytest.approx(at_estimate.high + 0.2 * BIAS_FACTOR)
    assert biased_up.low == pytest.approx(at_estimate.low - 0.2 * BIAS_FACTOR)
    assert biased_up.high == pytest.approx(at_estimate.high)


def test_a_higher_level_and_fewer_prompts_give_a_wider_interval() -> None:
    resampled = np.random.default_rng(0).normal(5.0, 1.0, size=500)

    def width(level: float, n_prompts: int) -> float:
        low, high = bootstrap_interval(5.0, resampled, np.ones(n_prompts), level=level, limits=ANYWHERE)
        return high - low

    assert width(0.99, 10) > width(0.95, 10) > width(0.5, 10)
    assert width(0.95, 3) > width(0.95, 10) > width(0.95, 100)


def test_the_interval_is_cut_to_the_possible() -> None:
    low, high = bootstrap_interval(1.0, np.linspace(0, 2, 100), np.ones(3), level=0.95, limits=(0.0, 2.0))
    assert (low, high) == (0.0, 2.0)


def test_resamples_without_a_value_are_left_out() -> None:
    found = np.linspace(3.0, 4.0, 200)
    with_gaps = np.concatenate([found, np.full(50, np.nan)])
    kept = bootstrap_interval(3.5, found, np.ones(8), level=0.95, limits=(0.0, 9.0))
    assert bootstrap_interval(3.5, with_gaps, np.ones(8), level=0.95, limits=(0.0, 9.0)) == kept


@pytest.mark.parametrize(
    ("estimate", "resampled"),
    [(math.nan, [1.0, 2.0, 3.0]), (2.0, [math.nan, math.nan]), (2.0, [2.0, math.nan]), (2.0, [])],
)
def test_no_interval_without_an_estimate_or_two_values(estimate: float, resampled: list[float]) -> None:
    interval = bootstrap_interval(estimate, np.array(resampled), np.ones(4), level=0.95, limits=ANYWHERE)
    assert np.isnan(interval).all()


def test_grouped_resamples_are_held_by_their_interval() -> None:
    # 6 % of the resamples lie in a group of their own, 10 away: beyond the standard error
    resampled = np.where(np.arange(1000) < 60, 30.0, 20.0)
    weights = np.ones(50)
    plain = bootstrap_interval(20.0, resampled, weights, level=0.95, limits=(0.0, 100.0))
    hull = bootstrap_interval(20.0, resampled, weights, level=0.95, limits=(0.0, 100.0), grouped=True)
    assert plain.high < 25
    assert (hull.low, hull.high) == (plain.low, 30.0)
    assert bootstrap_interval(20.0, resampled, weights, level=0.8, limits=(0.0, 100.0), grouped=True).high < 25

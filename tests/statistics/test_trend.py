from __future__ import annotations

import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS

from bathyscope.statistics.trend import trend

HOPS = np.repeat([2.0, 3.0, 4.0], 20)
FEW = np.repeat([1.0, 2.0, 5.0], [5, 4, 6])


def noise(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size)


def robust_t(y: np.ndarray, x: np.ndarray) -> float:
    """|slope| over its standard error for unequal spreads (White's), up to a factor that no order changes."""
    slope = stats.linregress(x, y).slope
    residual = y - y.mean() - slope * (x - x.mean())
    return float(abs(slope) / np.sqrt((((x - x.mean()) * residual) ** 2).sum()))


@pytest.mark.parametrize("seed", range(3))
def test_slope_and_correlation_are_the_textbooks(seed: int) -> None:
    y = 0.3 * FEW + noise(FEW.size, seed)
    found = trend(y, FEW, permutations=20)
    assert found.slope == pytest.approx(stats.linregress(FEW, y).slope, rel=1e-12)
    assert found.rank_correlation == pytest.approx(stats.spearmanr(FEW, y).statistic, rel=1e-12)
    # the pooled variance within groups is what the analysis of variance calls its error
    groups = [y[:5], y[5:9], y[9:]]
    within = sum(((own - own.mean()) ** 2).sum() for own in groups) / (FEW.size - 3)
    assert found.effect_size == pytest.approx(found.slope / math.sqrt(within), rel=1e-12)
    assert found.reason == ""


@pytest.mark.parametrize("seed", range(4))
def test_few_prompts_are_tested_exactly(seed: int) -> None:
    x = np.array([1.0, 1.0, 2.0, 3.0, 3.0, 4.0])
    y = noise(6, seed)
    of_all = [robust_t((y - y.mean()) * signs, x) for signs in itertools.product([1, -1], repeat=6)]
    share = np.mean(np.array(of_all) >= robust_t(y, x) * (1 - 1e-9))
    assert trend(y, x, permutations=720).p_value == pytest.approx(share, abs=1e-12)


def test_a_random_test_agrees_with_the_exact_one() -> None:
    x, y = np.repeat([1.0, 2.0, 3.0, 4.0], [4, 4, 4, 1]), noise(13, 5) + np.arange(13) / 8
    exact = trend(y, x, permutations=2**13).p_value
    assert trend(y, x, permutations=4999, seed=1).p_value == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 4999))


def test_a_planted_trend_has_the_smallest_p_value_there_is() -> None:
    hops = HOPS.repeat(10)
    for slope in (0.8, -0.8):
        found = trend(slope * hops + noise(600, 0), hops, permutations=999)
        assert found.p_value == 1 / 1000
        assert found.ci_low < slope < found.ci_high
        assert math.copysign(1, found.rank_correlation) == math.copysign(1, slope)
        assert found.effect_size == pytest.approx(slope, abs=0.2), "the spread within a difficulty is 1"


def test_p_values_are_uniform_where_there_is_no_trend() -> None:
    """Skewed scores, unequal groups: 200 draws fall below every threshold as often as they should."""
    found = np.array(
        [
            trend(np.random.default_rng(seed).exponential(size=FEW.size), FEW, permutations=99, seed=seed).p_value
            for seed in range(200)
        ]
    )
    assert found.min() >= 1 / 100
    assert stats.kstest(found, "uniform").pvalue > 0.01
    for threshold in (0.05, 0.2, 0.5):
        assert abs((found <= threshold).mean() - threshold) < 3 * math.sqrt(threshold * (1 - threshold) / 200)


def test_small_groups_of_large_spread_are_no_trend() -> None:
    """Where spread grows as groups shrink, a test of equal spreads would reject three to four times too often."""
    x = np.repeat([2.0, 3.0, 4.0], [40, 20, 10])
    draws = [noise(x.size, seed) * x**2 for seed in range(200)]
    rejected = np.mean([trend(y, x, permutations=99).p_value <= 0.05 for y in draws])
    assert rejected < 0.12


@pytest.mark.parametrize("x", [HOPS, np.repeat([2.0, 3.0, 4.0], 5)], ids=["60 prompts", "15 prompts"])
def test_intervals_hold_the_slope_as_often_as_they_say(x: np.ndarray) -> None:
    draws = [trend(0.3 * x + noise(x.size, seed), x, permutations=1, seed=seed) for seed in range(200)]
    covered = np.mean([found.ci_low <= 0.3 <= found.ci_high for found in draws])
    assert 0.9 <= covered <= 0.995


def few_and_unequal(spread: tuple[int, ...], draws: int) -> tuple[float, float]:
    """30, 5 and 5 prompts without a trend: how often intervals hold the slope, and how often the test errs.

    Of the errors a quarter of the draws tells: they need many signings each.
    """
    groups = [30, 5, 5]
    x, size = np.repeat([1.0, 2.0, 3.0], groups), np.repeat(np.array(spread, dtype=float), groups)
    drawn = np.random.default_rng(0).standard_normal((draws, x.size)) * size
    found = [trend(y, x, permutations=1) for y in drawn]
    held = [one.ci_low <= 0 <= one.ci_high for one in found]
    wrong = [trend(y, x, permutations=199, seed=seed).p_value <= 0.05 for seed, y in enumerate(drawn[: draws // 4])]
    return float(np.mean(held)), float(np.mean(wrong))


@pytest.mark.thorough
@pytest.mark.parametrize("spread", [(1, 1, 1), (1, 2, 3), (1, 1, 3), (3, 1, 1)], ids=str)
def test_few_and_unequal_groups_are_covered_and_tested_as_said(spread: tuple[int, ...]) -> None:
    covered, wrong = few_and_unequal(spread, 6000)
    assert 0.92 <= covered <= 0.98
    assert 0.035 <= wrong <= 0.065


def test_few_and_unequal_groups_are_covered_and_tested_about_as_said() -> None:
    """As far as 400 and 100 draws can tell: three standard errors of the shares on either side."""
    covered, wrong = few_and_unequal((1, 1, 3), 400)
    assert 0.91 <= covered <= 0.98
    assert 0 < wrong <= 0.116


def test_the_interval_is_hc3_with_the_degrees_of_freedom_of_the_quadratic_form() -> None:
    y = 0.2 * FEW + noise(FEW.size, 3)
    design = np.stack([np.ones(FEW.size), FEW], axis=1)
    fit = OLS(y, design).fit()
    left = np.eye(FEW.size) - design @ np.linalg.pinv(design)
    form = left @ np.diag((np.linalg.pinv(design)[1] / np.diag(left)) ** 2) @ left
    freedom = np.trace(form) ** 2 / np.trace(form @ form)
    reach = stats.t.ppf(0.975, freedom) * fit.HC3_se[1]
    found = trend(y, FEW, permutations=1)
    assert (found.ci_low, found.ci_high) == pytest.approx((fit.params[1] - reach, fit.params[1] + reach), rel=1e-9)


def test_a_slope_that_one_prompt_decides_has_no_interval() -> None:
    found = trend([0.3, 0.1, 0.2, 5.0], [1, 1, 1, 4], permutations=20)
    assert math.isfinite(found.slope)
    assert math.isnan(found.ci_low)
    assert found.reason == "one prompt decides the slope alone, so there is no interval"


@given(st.integers(0, 10_000), st.floats(-50, 50), st.sampled_from([0.01, 3.0, 200.0]))
def test_units_and_origin_do_not_matter(seed: int, origin: float, unit: float) -> None:
    y = noise(FEW.size, seed)
    one = trend(y, FEW, permutations=50)
    other = trend(origin + unit * y, 10 * FEW, permutations=50)
    assert other.p_value == one.p_value
    np.testing.assert_allclose(
        [other.slope, other.ci_low, other.ci_high],
        np.array([one.slope, one.ci_low, one.ci_high]) * unit / 10,
        rtol=1e-6,
        atol=1e-6 * unit,
    )
    assert other.rank_correlation == pytest.approx(one.rank_correlation)
    assert other.effect_size == pytest.approx(one.effect_size / 10, rel=1e-6, abs=1e-9)


def test_prompts_without_score_or_difficulty_are_left_out() -> None:
    y = 0.2 * FEW + noise(FEW.size, 3)
    expected = trend(y, FEW, permutations=50)
    gaps = trend([*y, np.nan, 7.0], [*FEW, 2.0, np.nan], permutations=50)
    assert gaps == expected


def test_equal_seeds_give_equal_results() -> None:
    y = noise(60, 2)
    assert trend(y, HOPS, permutations=99, seed=4) == trend(y, HOPS, permutations=99, seed=4)
    assert trend(y, HOPS, permutations=99, seed=4) != trend(y, HOPS, permutations=99, seed=5)


def test_equal_scores_are_no_trend() -> None:
    found = trend(np.full(60, 2.5), HOPS, permutations=99)
    assert (found.slope, found.ci_low, found.ci_high, found.p_value) == (0, 0, 0, 1)
    assert math.isnan(found.rank_correlation)
    assert math.isnan(found.effect_size)
    assert found.reason == (
        "all prompts have the same score, so there is no rank correlation; "
        "scores do not differ within a difficulty, so there is no effect size"
    )


@pytest.mark.parametrize("y", [HOPS / 10, HOPS * 3 + 1])
def test_a_trend_without_spread_has_no_effect_size(y: np.ndarray) -> None:
    found = trend(y, HOPS, permutations=99)
    assert found.p_value == 0.01
    assert math.isnan(found.effect_size)
    assert found.reason == "scores do not differ within a difficulty, so there is no effect size"


@pytest.mark.parametrize(
    ("y", "x", "reason"),
    [
        ([1.0, 2.0], [1.0, 2.0], "a trend needs at least 3 prompts with a score and a difficulty; there are 2"),
        ([1.0, math.nan, 2.0, 3.0], [1.0, 2.0, math.nan, 3.0], "at least 3 prompts with a score"),
        ([1.0, 2.0, 4.0], [3.0, 3.0, 3.0], "a trend needs at least two difficulties; all 3 prompts have 3"),
    ],
)
def test_no_trend_can_be_told(y: list[float], x: list[float], reason: str) -> None:
    found = trend(y, x)
    assert reason in found.reason
    assert all(math.isnan(value) for value in astuple(found)[:-1])

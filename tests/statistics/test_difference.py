"""Differences and slopes of estimates: textbook tests as oracles, exact cases, and what chance alone gives."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.statistics.crossing import block_input_at, kl_depth
from bathyscope.statistics.difference import (
    Term,
    contrast,
    paired_difference,
    slope_coefficients,
    two_sample_difference,
)
from bathyscope.statistics.kept_depth import kept_reading
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling

RESAMPLES = 40_000


def mean_of(values: np.ndarray, weights: np.ndarray | None = None) -> Reading:
    """The plainest estimator: the prompts' mean."""
    ones = np.ones(len(values)) if weights is None else weights
    return Reading(values[:, None], ones, lambda mean: mean[..., 0])


def symmetric(n: int, seed: int) -> np.ndarray:
    """Deviations without skewness, so that resampling sees no bias."""
    half = np.random.default_rng(seed).normal(size=n // 2)
    return np.concatenate([half, -half])


def falling(middle: np.ndarray) -> np.ndarray:
    """Curves [prompts, 10] that fall around ``middle``."""
    return 1 / (1 + np.exp(1.5 * (np.arange(10) - middle[:, None])))


def kl_reading(middle: np.ndarray, whole: bool = False) -> Reading:
    return Reading(
        falling(middle),
        np.ones(len(middle)),
        lambda mean: kl_depth(mean, interpolate=True),
        (0.0, 9.0),
        (lambda depth: block_input_at(np.round(depth, 9))) if whole else None,
    )


def test_a_paired_difference_of_means_is_the_paired_t_test() -> None:
    shared, change = 3 * symmetric(12, 0), 0.8 + symmetric(12, 1)
    found = paired_difference(mean_of(5 + shared), mean_of(5 + shared + change), Sampling(RESAMPLES))
    wanted = stats.ttest_rel(5 + shared + change, 5 + shared)
    interval = wanted.confidence_interval(0.95)
    assert found.estimate == pytest.approx(change.mean())
    assert (found.ci_low, found.ci_high) == pytest.approx((interval.low, interval.high), abs=0.03)
    assert found.p_value == pytest.approx(wanted.pvalue, rel=0.1)
    assert found.effect_size == pytest.approx(change.mean() / change.std(ddof=1), rel=0.02)
    assert found.standard_error == pytest.approx(stats.sem(change), rel=0.02)
    assert found.n_prompts == (12,)


def test_a_two_sample_difference_of_means_is_welchs_t_test() -> None:
    first, second = 2 + 3 * symmetric(14, 2), 4 + symmetric(8, 3)
    found = two_sample_difference(mean_of(first), mean_of(second), Sampling(RESAMPLES))
    wanted = stats.ttest_ind(second, first, equal_var=False)
    interval = wanted.confidence_interval(0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx((interval.low, interval.high), abs=0.06)
    assert found.p_value == pytest.approx(wanted.pvalue, rel=0.1)
    spread = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    assert found.effect_size == pytest.approx((second.mean() - first.mean()) / spread, rel=0.02)
    assert found.n_prompts == (14, 8)


def test_pairing_takes_away_what_prompts_do_to_both() -> None:
    shared, change = 9 * symmetric(12, 0), 0.8 + symmetric(12, 1)
    both = mean_of(shared), mean_of(shared + change)
    paired, apart = paired_difference(*both), two_sample_difference(*both)
    assert paired.estimate == apart.estimate
    assert 3 * (paired.ci_high - paired.ci_low) < apart.ci_high - apart.ci_low
    assert paired.p_value < 0.05 < apart.p_value


@pytest.mark.parametrize("whole", [False, True])
def test_a_run_and_its_copy_do_not_differ_at_all(whole: bool) -> None:
    reading = kl_reading(4.4 + np.random.default_rng(0).normal(size=8), whole)
    found = paired_difference(reading, reading)
    assert (found.estimate, found.positive_share) == (0, 0.5)
    # eight prompts may all be alike where four in ten are not
    unseen = 9 * (1 - 0.025 ** (1 / 8))
    assert (found.ci_low, found.ci_high) == pytest.approx((-unseen, unseen))
    assert found.exists_share == 1
    if not whole:
        assert (found.p_value, found.standard_error) == (1, 0)
        assert math.isnan(found.effect_size)


def test_resampling_with_counts_is_repeating_prompts() -> None:
    reading = kl_reading(4.4 + np.random.default_rng(0).normal(size=4))
    counts = np.array([[2, 0, 1, 1], [0, 0, 4, 0]])
    repeated = [
        kl_depth(np.repeat(reading.values, times, axis=0).mean(axis=0), interpolate=True).item() for times in counts
    ]
    np.testing.assert_allclose(reading.estimate(counts), repeated, rtol=1e-12)


def test_the_order_of_the_runs_only_turns_the_sign() -> None:
    rng = np.random.default_rng(5)
    first, second = kl_reading(4 + rng.normal(size=9)), kl_reading(5 + rng.normal(size=9))
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert (back.estimate, back.ci_low, back.ci_high) == pytest.approx((-there.estimate, -there.ci_high, -there.ci_low))
    assert back.p_value == pytest.approx(there.p_value)
    assert back.positive_share == pytest.approx(1 - there.positive_share)
    assert back.estimates == there.estimates[::-1]


@pytest.mark.parametrize("compare", [paired_difference, two_sample_difference])
def test_p_is_below_alpha_just_where_the_interval_excludes_zero(compare) -> None:
    agreed = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first, second = kl_reading(4 + rng.normal(size=6)), kl_reading(4.7 + rng.normal(size=6))
        found = compare(first, second, Sampling(200, 0.9, seed))
        excludes = found.ci_low > 0 or found.ci_high < 0
        assert excludes == (found.p_value < 0.1), seed
        agreed.append(excludes)
    assert 5 < sum(agreed) < 55


@pytest.mark.parametrize(("compare", "shared"), [(paired_difference, 1.0), (two_sample_difference, 0.0)])
def test_equal_populations_seldom_seem_to_differ(compare, shared: float) -> None:
    rejected = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        own = shared * rng.normal(size=10)
        first, second = (kl_reading(4.5 + own + 0.6 * rng.normal(size=10)) for _ in range(2))
        rejected += compare(first, second, Sampling(200, seed=seed)).p_value < 0.05
    # 20 expected of an exact test; the binomial's 99 % range, downwards open as the interval allows for bias
    assert 2 <= rejected <= 32


def test_a_clear_difference_is_found_and_its_p_is_what_the_resamples_can_show() -> None:
    rng = np.random.default_rng(1)
    middle = 3 + 0.3 * rng.normal(size=10)
    found = paired_difference(kl_reading(middle), kl_reading(middle + 2), Sampling(99))
    assert found.ci_low > 1
    assert found.p_value == 1 / 100
    assert found.positive_share == 1
    assert found.estimate == pytest.approx(2, abs=0.1)


def test_prompts_without_a_value_in_either_run_are_left_out_of_both() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 8))
    first[1], second[6] = np.nan, np.nan
    found = paired_difference(mean_of(first), mean_of(second))
    kept = [0, 2, 3, 4, 5, 7]
    assert found.n_prompts == (6,)
    assert found.estimates == pytest.approx((first[kept].mean(), second[kept].mean()))
    apart = two_sample_difference(mean_of(first), mean_of(second))
    assert apart.n_prompts == (7, 7)
    assert apart.estimate == pytest.approx(np.nanmean(second) - np.nanmean(first))


def test_the_share_of_resamples_in_which_both_exist() -> None:
    def locate(mean: np.ndarray) -> np.ndarray:
        return np.where(mean[..., 0] > 0, mean[..., 0], np.nan)

    values = np.array([[4.0], [-1.0], [-1.0]])
    often = paired_difference(Reading(values, np.ones(3), locate), mean_of(values[:, 0] * 0), Sampling(RESAMPLES))
    # the first prompt must be drawn at all
    assert often.exists_share == pytest.approx(1 - (2 / 3) ** 3, abs=0.01)
    never = paired_difference(Reading(-np.abs(values), np.ones(3), locate), mean_of(values[:, 0]))
    assert math.isnan(never.estimate)
    assert math.isnan(never.ci_low)
    assert never.exists_share == 0


@pytest.mark.parametrize("n", [0, 1])
def test_one_prompt_gives_no_interval(n: int) -> None:
    values = np.array([1.0, np.nan, np.nan])[[0, 1, 2] if n else [1, 1, 2]]
    found = paired_difference(mean_of(values), mean_of(values + 2))
    assert found.n_prompts == (n,)
    assert math.isnan(found.ci_low)
    assert math.isnan(found.p_value)
    assert found.estimate == 2 if n else math.isnan(found.estimate)


def test_weights_that_are_more_unequal_give_a_wider_interval() -> None:
    values, change = symmetric(10, 0), 0.5 + symmetric(10, 1)
    unequal = np.array([20.0, *np.ones(9)])

    def width(weights: np.ndarray) -> float:
        found = paired_difference(mean_of(values), mean_of(values + change, weights))
        return found.ci_high - found.ci_low

    assert width(unequal) > 1.5 * width(np.ones(10))


def test_whole_numbers_keep_the_doubt_that_rounding_hides() -> None:
    # 3.9 and 3.5 both round up to 4, so that no difference shows, but the first may as well be past 4
    rng = np.random.default_rng(3)
    near, far = (middle + 0.4 * (own := rng.normal(size=8)) - 0.4 * own.mean() for middle in (3.9, 3.5))
    first, second = kl_reading(near, whole=True), kl_reading(far, whole=True)
    found = two_sample_difference(first, second)
    assert found.estimate == 0
    assert (found.ci_low, found.ci_high) == (-1, 0)
    assert math.isnan(found.p_value)
    assert math.isnan(found.standard_error)
    assert found.estimates == (4, 4)


def test_whole_numbered_intervals_hold_the_truth() -> None:
    held, truth = 0, block_input_at(5.35) - block_input_at(4.05)
    centre = kl_depth(falling(np.array([4.0]))[0], interpolate=True).item()
    offset = 4.0 - centre
    for seed in range(150):
        rng = np.random.default_rng(seed)
        first, second = (kl_reading(offset + m + 0.5 * rng.normal(size=8), whole=True) for m in (4.05, 5.35))
        found = two_sample_difference(first, second, Sampling(200, seed=seed))
        assert found.ci_low <= found.estimate <= found.ci_high
        assert found.ci_low == round(found.ci_low)
        held += bool(found.ci_low <= truth <= found.ci_high)
    assert held >= 0.92 * 150


def test_a_slope_is_that_of_least_squares() -> None:
    x, y = np.array([1.0, 2.0, 4.0, 4.5]), np.array([0.3, 0.1, 0.7, 0.2])
    assert slope_coefficients(x) @ y == pytest.approx(np.polyfit(x, y, 1)[0])
    with pytest.raises(OptionError, match="two different sizes; given: 28, 28"):
        slope_coefficients([28, 28])


def test_the_interval_of_a_slope_adds_up_independent_errors() -> None:
    x = np.array([0.0, 1.0, 3.0])
    samples = [x[i] * 0.5 + symmetric(20, i) for i in range(3)]
    c = slope_coefficients(x)
    found = contrast([[Term(mean_of(s), k)] for s, k in zip(samples, c)], Sampling(RESAMPLES))
    assert found.estimate == pytest.approx(np.polyfit(x, [s.mean() for s in samples], 1)[0])
    error = math.sqrt(sum((k * stats.sem(s)) ** 2 for s, k in zip(samples, c)))
    assert found.standard_error == pytest.approx(error, rel=0.02)
    together = contrast([[Term(mean_of(samples[0] + v), k) for v, k in zip(x, c)]])
    assert (together.estimate, together.standard_error) == pytest.approx((1, 0))


@pytest.mark.parametrize("shift", [0.1, -0.3])
def test_equivalence_of_means_is_two_one_sided_t_tests(shift: float) -> None:
    first, change = 3 * symmetric(14, 4), shift + symmetric(14, 5)
    found = paired_difference(mean_of(first), mean_of(first + change), Sampling(RESAMPLES), bound=0.9)
    below = stats.ttest_1samp(change, 0.9, alternative="less").pvalue
    above = stats.ttest_1samp(change, -0.9, alternative="greater").pvalue
    assert found.p_equivalence == pytest.approx(max(below, above), rel=0.1)
    assert math.isnan(paired_difference(mean_of(first), mean_of(first + change), Sampling(9)).p_equivalence)


@pytest.mark.parametrize("whole", [False, True])
def test_equivalence_is_found_just_where_the_interval_lies_within_the_bound(whole: bool) -> None:
    """With 5 % on each side, of a depth that is biased; the published whole numbers have no test."""
    draw = np.random.default_rng(7)
    outcomes = set()
    for seed in range(40):
        terms = [kl_reading(draw.normal(middle, 1, size=12), whole) for middle in (4.0, 4.3)]
        found = two_sample_difference(*terms, Sampling(300, level=0.9, seed=seed), bound=0.8)
        if whole:
            assert math.isnan(found.p_equivalence)
            continue
        within = found.ci_low > -0.8 and found.ci_high < 0.8
        assert (found.p_equivalence < 0.05) == within
        outcomes.add(within)
    assert whole or outcomes == {True, False}


def test_a_quantity_without_limits_has_no_interval_where_prompts_agree() -> None:
    found = paired_difference(mean_of(np.ones(5)), mean_of(np.ones(5) + 0.2), Sampling(99), bound=0.3)
    assert found.estimate == pytest.approx(0.2)
    assert np.isnan([found.ci_low, found.ci_high, found.p_value, found.p_equivalence]).all()


def shares_of_tokens(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Shares of kept tokens [prompts, L + 1] of two models on the same prompts, of one or two tokens each."""
    rng = np.random.default_rng(3)
    depth = rng.choice(6, p=[0.15, 0.05, 0.1, 0.1, 0.2, 0.4], size=(400, 2 if kind == "pairs" else 1))
    if kind == "alike":  # one-token answers that nearly all settle at the end in both
        depth = np.where(rng.random((400, 1)) < 0.85, 5, depth)
    changed = np.where(rng.random(depth.shape) < (0.06 if kind == "alike" else 0.5), np.maximum(depth - 2, 0), depth)
    return tuple((tokens[..., None] <= np.arange(6)).mean(1) for tokens in (depth, changed))  # type: ignore[return-value]


@pytest.mark.parametrize("compare", [paired_difference, two_sample_difference])
@pytest.mark.parametrize("kind", ["pairs", "single", "alike"])
@pytest.mark.parametrize("prompts", [2, 3, 4, 5, 8])
def test_few_prompts_of_few_tokens_have_an_interval_that_holds(compare, kind: str, prompts: int) -> None:
    """Also of a mean over prompts, whose values are as coarse; and no difference is claimed of equal models."""
    first, second = shares_of_tokens(kind)
    draw = np.random.default_rng(prompts)

    def half(shares: np.ndarray) -> Reading:
        return kept_reading(shares, np.ones(len(shares)), 0.5)

    def mean_depth(shares: np.ndarray) -> Reading:
        return Reading((1 - shares).sum(1)[:, None], np.ones(len(shares)), lambda mean: mean[..., 0], (0.0, 5.0))

    for read in (half, mean_depth):
        true = float(read(second).estimate() - read(first).estimate())
        held = 0
        for seed in range(100):
            one = draw.choice(len(first), prompts, replace=False)
            other = one if compare is paired_difference else draw.choice(len(first), prompts, replace=False)
            found = compare(read(first[one]), read(second[other]), Sampling(200, seed=seed), bound=0.2)
            assert found.ci_high > found.ci_low
            assert (found.p_value < 0.05) == (found.ci_low > 0 or found.ci_high < 0)
            if found.p_equivalence < 0.025:
                assert found.ci_low > -0.2
                assert found.ci_high < 0.2
            held += found.ci_low - 1e-9 <= true <= found.ci_high + 1e-9
        assert held >= 90


@settings(max_examples=80, deadline=None)
@given(
    depths=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12),
    copies=st.integers(0, 3),
    level=st.sampled_from([0.8, 0.9, 0.95, 0.99]),
    bound=st.sampled_from([0.1, 0.5, 1.5, 3.0]),
    paired=st.booleans(),
)
def test_interval_and_tests_say_the_same(
    depths: list[tuple[int, int]], copies: int, level: float, bound: float, paired: bool
) -> None:
    """Ties, copies, agreement of all prompts, or of those of one run alone."""
    cluster = np.array([*range(len(depths)), *[0] * copies])
    values = np.array([*depths, *[depths[0]] * copies], dtype=float)
    readings = [
        Reading(column[:, None], np.ones(len(column)), lambda mean: mean[..., 0], (0.0, 4.0), cluster=cluster)
        for column in values.T
    ]
    if not paired:
        readings[1] = replace(readings[1], cluster=cluster + 100)
    compare = paired_difference if paired else two_sample_difference
    found = compare(*readings, Sampling(300, level), bound=bound)
    assert found.n_units == len(depths) * (1 if paired else 2)
    assert -4 <= found.ci_low <= found.estimate <= found.ci_high <= 4
    assert found.ci_low < found.ci_high
    assert (found.p_value < 1 - level) == (found.ci_low > 0 or found.ci_high < 0)
    within = compare(*readings, Sampling(300, 2 * level - 1), bound=bound)
    # at a limit the interval ends, where its test goes on
    if within.ci_low > -4 and within.ci_high < 4:
        assert (found.p_equivalence < 1 - level) == (-bound < within.ci_low and within.ci_high < bound)


@pytest.mark.thorough
def test_a_difference_as_large_as_the_bound_seldom_counts_as_none() -> None:
    draw = np.random.default_rng(8)
    found = [
        paired_difference(
            mean_of(one), mean_of(one + draw.normal(0.5, 0.6, size=20)), Sampling(500, seed=seed), bound=0.5
        ).p_equivalence
        for seed, one in enumerate(draw.normal(size=(1500, 20)))
    ]
    assert 0.035 <= np.mean(np.array(found) <= 0.05) <= 0.065


def test_the_interval_stays_within_what_is_possible() -> None:
    rng = np.random.default_rng(0)
    first, second = (Reading(rng.normal(size=(3, 1)), np.ones(3), lambda m: m[..., 0], (-1.0, 1.0)) for _ in range(2))
    found = two_sample_difference(first, second, Sampling(2000, level=0.999))
    assert (found.ci_low, found.ci_high) == (-2, 2)


def test_the_seed_decides() -> None:
    rng = np.random.default_rng(0)
    both = kl_reading(4 + rng.normal(size=9)), kl_reading(5 + rng.normal(size=9))
    assert paired_difference(*both, Sampling(2000, seed=1)) == paired_difference(*both, Sampling(2000, seed=1))
    assert (
        paired_difference(*both, Sampling(2000, seed=1)).ci_low
        != paired_difference(*both, Sampling(2000, seed=2)).ci_low
    )


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(OptionError, match=r"shape \[3, 2\] and weights of shape \[2\] do not fit"):
        Reading(np.ones((3, 2)), np.ones(2), np.mean)
    with pytest.raises(OptionError, match="A weight is not positive"):
        Reading(np.ones(2), np.array([1.0, 0.0]), np.mean)

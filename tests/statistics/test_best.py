"""Comparisons with the best: exact cases, and the error they bound, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.statistics.best import compared_with_best, simultaneous, simultaneous_gains
from bathyscope.statistics.sampling import Sampling


def test_two_candidates_are_compared_as_a_paired_t_test_does() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=40)
    values = np.stack([shared, shared + rng.normal(0.03, 0.1, 40)])
    found = compared_with_best(values, Sampling(20_000))
    wanted = stats.ttest_rel(values[1], values[0]).pvalue
    assert found.best == int(values[1].mean() < values[0].mean())
    assert found.p_value[found.best] == 1.0
    assert found.p_value[1 - found.best] == pytest.approx(wanted, abs=0.02)
    assert found.indistinguishable.tolist() == [True, wanted >= 0.05]
    assert wanted > 0.03


def test_a_constant_difference_is_told_and_equal_candidates_are_not() -> None:
    values = np.random.default_rng(0).normal(size=12)
    found = compared_with_best([values + 1.0, values, values, values + 0.5], Sampling(500))
    assert found.best == 1
    np.testing.assert_array_equal(found.indistinguishable, [False, True, True, False])
    np.testing.assert_allclose(found.p_value, [1 / 501, 1, 1, 1 / 501])


def test_more_candidates_make_a_difference_harder_to_tell() -> None:
    rng = np.random.default_rng(5)
    pair = np.stack([np.zeros(30), 0.2 + 0.5 * stats.zscore(rng.normal(size=30))])  # p = 0.04
    many = np.concatenate([pair, rng.normal(1.0, 0.5, (12, 30))])
    alone, together = (compared_with_best(own, Sampling(4000)).p_value[1] for own in (pair, many))
    assert alone < 0.05 < together


def test_simultaneous_intervals_are_bonferronis_or_a_little_shorter() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0.1, 1.0, (20, 60))
    found = simultaneous(values, Sampling(20_000))
    error = values.std(axis=1, ddof=1) / np.sqrt(60)
    reach = (found.high - found.low) / 2 / error
    one, bonferroni = stats.t.isf([0.025, 0.025 / 20], 59)
    assert ((one < reach) & (reach < 1.02 * bonferroni)).all()
    np.testing.assert_array_equal(found.p_value < 0.05, (found.low > 0) | (found.high < 0))
    [alone] = simultaneous(values[:1], Sampling(20_000)).p_value
    assert alone == pytest.approx(stats.ttest_1samp(values[0], 0).pvalue, abs=0.02)


def test_a_gain_of_all_prompts_is_told_and_none_is_not() -> None:
    found = simultaneous([np.ones(12), np.zeros(12)], Sampling(300))
    np.testing.assert_array_equal(found.low, [1, 0])
    np.testing.assert_array_equal(found.high, [1, 0])
    np.testing.assert_allclose(found.p_value, [1 / 301, 1])


def test_one_prompt_tells_nothing() -> None:
    found = compared_with_best([[1.0], [0.5]])
    assert found.best == 1
    assert found.indistinguishable.all()
    assert np.isnan(found.p_value).all()


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(OptionError, match=r"\[candidates, prompts\]; an array of shape \(0,\)"):
        compared_with_best([])


def errors(prompts: int, trials: int) -> float:
    """How often any of six equal candidates is told from the best."""
    rng, wrong = np.random.default_rng(prompts), 0
    for trial in range(trials):
        values = rng.normal(size=prompts) + rng.normal(size=(6, prompts)) * np.linspace(0.2, 1, 6)[:, None]
        wrong += not compared_with_best(values, Sampling(400, seed=trial)).indistinguishable.all()
    return wrong / trials


def test_equal_candidates_are_seldom_told_apart() -> None:
    assert errors(40, 60) <= 0.15  # 5 % ± 3 standard errors


@pytest.mark.thorough
@pytest.mark.parametrize("prompts", [8, 20, 100])
def test_equal_candidates_are_told_apart_in_at_most_one_of_twenty(prompts: int) -> None:
    assert errors(prompts, 600) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)


@pytest.mark.parametrize("prompts", [2, 3, 5])
def test_few_prompts_tell_nothing_of_many_candidates(prompts: int) -> None:
    """Of two prompts every draw but their mean stands at the same distance, whatever candidate is looked at."""
    rng, trials, wrong = np.random.default_rng(prompts), 80, 0
    for trial in range(trials):
        found = simultaneous(rng.normal(size=(30, prompts)), Sampling(100, seed=trial))
        outside = (found.low > 0) | (found.high < 0)
        np.testing.assert_array_equal(found.p_value < 0.05, outside)
        wrong += outside.any()
    assert wrong / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_few_prompts_share_the_error_of_students_tests() -> None:
    values = np.random.default_rng(4).normal(0.5, 1, (6, 4))
    found = simultaneous(values, Sampling(40_000))
    alone = stats.ttest_1samp(values, 0, axis=1)
    np.testing.assert_allclose(found.p_value, np.minimum(1, 6 * alone.pvalue), rtol=0.05)
    reach = stats.t.isf(0.025 / 6, 3) * values.std(axis=1, ddof=1) / 2
    np.testing.assert_allclose(found.high - found.mean, reach, rtol=0.02)
    against = compared_with_best(values, Sampling(40_000))
    pairs = [stats.ttest_rel(row, values[against.best]).pvalue for row in np.delete(values, against.best, 0)]
    np.testing.assert_allclose(np.delete(against.p_value, against.best), np.minimum(1, 15 * np.array(pairs)), rtol=0.1)


def test_copies_in_one_cluster_are_one_prompt() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0.2, 0.3, (4, 12)) + np.arange(4)[:, None] / 10
    copied, cluster = np.repeat(values, 3, axis=1), np.repeat(np.arange(12), 3)
    for call in (compared_with_best, simultaneous):
        once, together, apart = call(values), call(copied, Sampling(2000, cluster=cluster)), call(copied)
        alone = call(values, Sampling(2000, cluster=np.arange(12)))
        for name in ("mean", "low", "high", "p_value"):
            np.testing.assert_allclose(getattr(together, name), getattr(once, name))
            np.testing.assert_array_equal(getattr(alone, name), getattr(once, name))
        assert (together.high - together.low > 1.5 * (apart.high - apart.low)).all()


def test_a_few_answers_that_agree_are_no_proof() -> None:
    """One window, against the formula of Bonett and Price with Student's quantile."""
    for prompts, told in ((3, False), (40, True)):
        [low], [high] = (getattr(simultaneous_gains(np.ones((1, prompts))), name) for name in ("low", "high"))
        assert (low > 0) == told
        assert (low < 1) & (high == 1)
    gains = np.array([1] * 7 + [-1] * 2 + [0] * 21, dtype=float)
    found = simultaneous_gains(gains[None], Sampling(40_000))
    share, count = (7 - 2) / 32, 32
    error = np.sqrt((8 / count + 3 / count - share**2) / count)
    reach = stats.t.isf(0.025, count - 1) * error * np.sqrt(count / (count - 1))
    np.testing.assert_allclose([found.low[0], found.high[0]], [share - reach, share + reach], atol=0.01)


def test_gains_of_one_cluster_are_drawn_together() -> None:
    gains = np.random.default_rng(3).choice([-1.0, 0.0, 1.0], (2, 10))
    copied, cluster = np.repeat(gains, 4, axis=1), np.repeat(np.arange(10), 4)
    together, apart = simultaneous_gains(copied, Sampling(2000, cluster=cluster)), simultaneous_gains(copied)
    assert (together.high - together.low > 1.3 * (apart.high - apart.low)).all()

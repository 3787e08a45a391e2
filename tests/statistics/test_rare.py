"""Intervals of costs that few prompts carry, on costs of real models that are stored prompt by prompt."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.fresh import fresh_module

from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.rare import FEWEST_PROMPTS, bounded_intervals, carried_by_few, outward_mean_intervals
from bathyscope.statistics.sampling import Sampling

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "cost_coverage.py"
DRAWS = 150
SAMPLING = Sampling(resamples=200, level=0.9)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return fresh_module(BENCHMARK, "cost_coverage")


def test_intervals_only_move_outwards() -> None:
    values = np.random.default_rng(0).exponential(size=(30, 4))
    values[3, 1] = np.nan
    for plain, outward in zip(mean_intervals(values, SAMPLING), outward_mean_intervals(values, SAMPLING), strict=True):
        assert outward.low < plain.low < plain.high < outward.high


def test_an_end_is_that_of_one_prompt_more() -> None:
    """It is three times as far from the mean as the farthest: at 0.25 + 3 · 0.75 for three at 0 and one at 1."""
    values = np.array([[0.0], [0.0], [0.0], [1.0]])
    [more] = mean_intervals(np.append(values, [[2.5]], axis=0), SAMPLING)
    assert outward_mean_intervals(values, SAMPLING)[0].high == more.high


def test_the_prompt_more_is_a_draw_of_its_own() -> None:
    """Where prompts are drawn in clusters it is in none of them."""
    values = np.random.default_rng(0).exponential(size=(12, 1))
    cluster = np.repeat(np.arange(6), 2)
    further = values.mean() - 3 * np.abs(values - values.mean()).max()
    alone = Sampling(resamples=200, level=0.9, cluster=np.append(cluster, 6))
    [more] = mean_intervals(np.append(values, [[further]], axis=0), alone)
    [outward] = outward_mean_intervals(values, Sampling(resamples=200, level=0.9, cluster=cluster))
    assert outward.low == pytest.approx(more.low)


def test_a_far_prompt_shows_that_few_carry_a_cost() -> None:
    even = np.arange(10.0)
    assert carried_by_few(even[:, None]).tolist() == [False]
    # the median is 4.5 and half of the prompts are 2.5 from it: 30 more is the farthest of the rest
    for far, few in ((4.5 + 30 - 0.1, False), (4.5 + 30 + 0.1, True)):
        assert carried_by_few(np.where(even == 9, far, even)[:, None]).tolist() == [few]
        assert carried_by_few(np.where(even == 9, -far, -even)[:, None]).tolist() == [few]


@pytest.mark.parametrize(("prompts", "expected"), [(7, [True] * 3), (8, [False, True, False])])
def test_one_cost_that_few_carry_speaks_for_others_of_few_prompts(prompts: int, expected: list[bool]) -> None:
    values = np.random.default_rng(0).uniform(size=(prompts, 3))
    values[0, 1] = 90.0
    assert carried_by_few(values).tolist() == expected


def test_most_costs_that_few_carry_speak_for_all() -> None:
    values = np.random.default_rng(0).uniform(size=(12, 3))
    values[0, :2] = 90.0
    assert carried_by_few(values).all()


def test_costs_that_agree_but_for_rounding_tell_nothing_of_others_and_follow_them() -> None:
    """A block that does nothing costs nothing; one that no prompt needed may be needed by others."""
    alike = 1e-9 * np.random.default_rng(0).standard_cauchy(size=12)
    even = np.random.default_rng(1).uniform(size=12)
    few = np.array([5.0, *[0.0] * 11])
    assert carried_by_few(np.stack([alike, even], axis=1)).tolist() == [False, False]
    assert carried_by_few(np.stack([alike, even, even, few], axis=1)).tolist() == [True, False, False, True]


def test_a_cost_without_values_is_carried_by_none() -> None:
    values = np.stack([np.full(12, np.nan), np.random.default_rng(1).uniform(size=12)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert carried_by_few(values).tolist() == [False, False]


@pytest.mark.parametrize(("clusters", "bounded"), [(39, False), (40, True)])
def test_clusters_are_counted_and_not_prompts(clusters: int, bounded: bool) -> None:
    values = np.zeros((80, 1))
    values[:4] = 5.0
    sampling = Sampling(resamples=200, cluster=np.arange(80) % clusters)
    few = carried_by_few(values)
    assert few.all()
    [ends] = bounded_intervals(mean_intervals(values, sampling), few, values, sampling)
    assert np.isfinite(ends).all() == bounded


def test_intervals_that_are_given_hold_at_every_number_of_prompts(benchmark: ModuleType) -> None:
    """Of costs of real models, those that few prompts carry among them; an interval that is not given misses nothing."""
    for name, costs in benchmark.populations().items():
        for size in (4, 8, 20):
            given, held, worst = benchmark.given_coverage(costs, size, DRAWS)
            assert worst < 0.15, (name, size)
            assert held > 0.9 or given < 0.25, (name, size)
    costs = benchmark.populations()["answers, permutations_12"]
    assert benchmark.coverage(costs, 8, DRAWS, mean_intervals)[0] < 0.75


@pytest.mark.parametrize("size", [4, 8, 20])
def test_the_block_that_costs_least_is_seldom_bounded_too_low(benchmark: ModuleType, size: int) -> None:
    """As prune chooses it on so many prompts, and bounds it on as many others."""
    for name, costs in benchmark.populations().items():
        plain, given, bounded = benchmark.chosen_too_low(costs, size, DRAWS)
        assert bounded <= 0.15, name
        if name == "answers, permutations_12":
            assert plain > 0.2
        if name.startswith(("problems", "windows")):
            assert given > 0.85, name


def test_without_a_value_there_is_no_interval() -> None:
    values = np.array([[np.nan, 1.0], [np.nan, 2.0]])
    nothing, something = outward_mean_intervals(values, SAMPLING)
    assert np.isnan(nothing).all()
    assert np.isfinite(something).all()


def test_blocks_that_some_answers_need_are_seldom_called_idle(benchmark: ModuleType) -> None:
    """The two last blocks of a trained model cost 0.01 to 0.04 nats, mostly on few answers; none is idle."""
    costs = benchmark.populations()["answers, permutations_12"]
    assert (costs.mean(axis=0)[-2:] > benchmark.IDLE).all()
    assert (costs.mean(axis=0)[-2:] < 0.04).all()
    wrong = {
        (name, size): benchmark.called_idle(costs, size, DRAWS, intervals)
        for name, intervals in (("plain", mean_intervals), ("outward", outward_mean_intervals))
        for size in (8, FEWEST_PROMPTS)
    }
    assert wrong["plain", 8] > 0.2, "few prompts call a block idle that is none, which is why they are not asked"
    assert wrong["outward", FEWEST_PROMPTS] < 0.08 < wrong["plain", FEWEST_PROMPTS]

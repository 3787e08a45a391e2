"""Intervals of costs that few prompts carry, on costs of real models that are stored prompt by prompt."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.fresh import fresh_module

from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.rare import FEWEST_PROMPTS, outward_mean_intervals
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

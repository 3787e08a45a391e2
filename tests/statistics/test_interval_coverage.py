"""A short run of benchmarks/interval_coverage.py: how often intervals hold a known crossing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.fresh import fresh_module

from bathyscope.statistics.reduce import weighted_mean

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "interval_coverage.py"
TRIALS = 150


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return fresh_module(BENCHMARK, "interval_coverage")


def scenarios(benchmark: ModuleType, *names: str) -> list:
    return [scenario for scenario in benchmark.SCENARIOS if scenario.name in names]


@pytest.mark.parametrize("name", ["noisy", "skewed prompts", "longer differ", "white, plateau"])
def test_prompts_average_to_the_population_whose_crossing_is_the_truth(benchmark: ModuleType, name: str) -> None:
    [scenario] = scenarios(benchmark, name)
    drawn = benchmark.draw(scenario, 4000, np.random.default_rng(0))
    truth = benchmark.truth(scenario)
    for kind, values in (("cosine", drawn.cosine), ("kl", drawn.kl), ("overlap", drawn.overlap)):
        found = benchmark.READ[kind](weighted_mean(values, drawn.n_tokens), interpolate=True)
        assert found == pytest.approx(truth[f"interpolated_{kind}"], abs=0.08), kind
    assert np.mean(drawn.settle_depth) == pytest.approx(truth["settle"], abs=0.08)


@pytest.mark.parametrize(
    ("scenario", "size"),
    [
        ("longer differ", 10),
        *(
            pytest.param(scenario, size, marks=pytest.mark.thorough)
            for scenario, size in (("white noise", 10), ("longer differ", 50), ("white noise", 50))
        ),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(benchmark: ModuleType, scenario: str, size: int) -> None:
    outcomes = benchmark.study(scenarios(benchmark, scenario), [size], TRIALS, resamples=400)
    assert len(outcomes) == len(benchmark.STUDIED) == 8
    for (_, _, name), drawn in outcomes.items():
        low, high = benchmark.wanted(size, name)
        # Two standard errors of a share near 95 % in this many draws widen the upper bound only.
        assert low <= benchmark.coverage(drawn) <= high + 2, (scenario, name)
        assert all(outcome.exists for outcome in drawn)


def test_the_plain_percentile_interval_would_fail_with_ten_prompts(benchmark: ModuleType) -> None:
    outcomes = benchmark.compare(scenarios(benchmark, "noisy"), [10], TRIALS, resamples=500)
    shipped = benchmark.coverage(outcomes["the same, extended against the bias", "noisy", 10, "kl"])
    assert benchmark.coverage(outcomes["percentile", "noisy", 10, "kl"]) < 85 < 90 <= shipped

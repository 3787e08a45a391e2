"""The permutation test of two groups, against its definition written out and against a t-test."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from bathyscope.statistics.permutation import permutation_p
from bathyscope.statistics.reading import Reading

FIRST, SECOND = np.array([0.3, -0.2, 1.1, 0.4, 0.9]), np.array([1.3, 0.8, 2.2, 1.0])
TOKENS = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0])


def reading(values: np.ndarray, weights: np.ndarray | None = None) -> Reading:
    """The mean of one number a prompt."""
    return Reading(values[:, None], np.ones(len(values)) if weights is None else weights, lambda mean: mean[..., 0])


@pytest.mark.parametrize("weights", [np.ones(9), TOKENS])
def test_all_ways_to_deal_few_prompts_are_tried(weights: np.ndarray) -> None:
    values = np.concatenate([FIRST, SECOND])

    def apart(chosen: tuple[int, ...]) -> float:
        rest = [place for place in range(9) if place not in chosen]
        return abs(
            float(np.average(values[list(chosen)], weights=weights[list(chosen)]))
            - float(np.average(values[rest], weights=weights[rest]))
        )

    given = apart(tuple(range(5)))
    share = np.mean([apart(chosen) >= given - 1e-12 for chosen in combinations(range(9), 5)])
    found = permutation_p(reading(FIRST, weights[:5]), reading(SECOND, weights[5:]))
    assert found == pytest.approx(share, abs=1e-12)
    assert found == permutation_p(reading(SECOND, weights[5:]), reading(FIRST, weights[:5]))


def test_with_many_prompts_it_is_close_to_a_t_test_and_never_zero() -> None:
    draw = np.random.default_rng(0)
    one, two = draw.normal(size=60), draw.normal(0.4, 1, size=45)
    wanted = stats.ttest_ind(one, two).pvalue
    assert permutation_p(reading(one), reading(two), seed=1) == pytest.approx(wanted, abs=0.01)
    assert permutation_p(reading(one), reading(two + 9), permutations=499) == 1 / 500


def test_where_nothing_differs_p_values_are_spread_evenly() -> None:
    draw = np.random.default_rng(3)
    found = [
        permutation_p(reading(draw.normal(size=12)), reading(draw.normal(size=9)), permutations=199) for _ in range(300)
    ]
    for level in (0.1, 0.3, 0.5, 0.8):
        assert np.mean(np.array(found) <= level) == pytest.approx(level, abs=0.08)


def test_rounding_is_no_difference() -> None:
    same = np.full(6, 0.1)
    assert permutation_p(reading(same, np.arange(1.0, 7.0)), reading(same[:5], np.arange(2.0, 7.0))) == 1


def test_a_dealing_without_an_estimate_counts_as_farther_apart() -> None:
    def positive(mean: np.ndarray) -> np.ndarray:
        return np.where(mean[..., 0] > 0, mean[..., 0], np.nan)

    values = [np.array([1.0, 1.2, 0.9]), np.array([-5.0, 20.0])]
    one, two = (Reading(own[:, None], np.ones(len(own)), positive) for own in values)
    dealt = [set(chosen) for chosen in combinations(range(5), 2)]
    pooled = np.concatenate(values)
    given = abs(values[0].mean() - values[1].mean())

    def counts(chosen: set[int]) -> bool:
        mean, rest = pooled[list(chosen)].mean(), pooled[[n for n in range(5) if n not in chosen]].mean()
        return bool(mean <= 0 or rest <= 0 or abs(mean - rest) >= given - 1e-12)

    assert any(pooled[list(chosen)].mean() <= 0 for chosen in dealt)
    assert permutation_p(one, two) == pytest.approx(np.mean([counts(chosen) for chosen in dealt]))


def test_what_cannot_be_tested_is_nan() -> None:
    missing = np.array([np.nan, np.nan, 1.0])
    assert np.isnan(permutation_p(reading(FIRST), reading(missing)))
    assert not np.isnan(permutation_p(reading(FIRST), reading(np.array([np.nan, 2.0, 1.0]))))
    never = Reading(FIRST[:, None], np.ones(5), lambda mean: np.full(mean.shape[:-1], np.nan))
    assert np.isnan(permutation_p(never, reading(SECOND)))


@pytest.mark.parametrize("repeated", [1, 3, 7])
@pytest.mark.parametrize("seed", range(4))
def test_equal_differences_are_equal_whatever_they_round_to(seed: int, repeated: int) -> None:
    """Whole numbers far from 0 in sevenths: exact differences tie often, and floating-point ones hardly ever."""
    numbers = np.random.default_rng(seed).integers(0, 4, 8)
    sums = [abs(int(2 * numbers[list(chosen)].sum() - numbers.sum())) for chosen in combinations(range(8), 4)]
    share = np.mean([each >= sums[0] for each in sums])
    values = np.repeat(numbers / 7 + 1000 / 7, repeated)
    cluster = np.repeat(np.arange(8), repeated)
    half = 4 * repeated
    groups = [
        Reading(values[part, None], np.ones(half), lambda mean: mean[..., 0], cluster=cluster[part])
        for part in (slice(half), slice(half, None))
    ]
    assert permutation_p(*groups) == pytest.approx(share, abs=1e-12)

"""Strata: combined means against loops, resamples that stay inside them, and how often a candidate is the cheapest."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope.statistics.best import compared_with_best
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.strata import Strata, cheapest_again

NUMBER = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(4, len(NUMBER)))


@pytest.mark.parametrize("worst", [False, True])
def test_strata_count_alike_however_many_prompts_they_have(worst: bool) -> None:
    means = np.array([[row[stratum == NUMBER].mean() for stratum in range(3)] for row in VALUES])
    expected = means.max(1) if worst else means.mean(1)
    np.testing.assert_allclose(Strata(NUMBER, worst).combine(VALUES), expected)
    compared = compared_with_best(VALUES, Sampling(200), Strata(NUMBER, worst))
    np.testing.assert_allclose(compared.mean, expected)
    assert compared.best == int(expected.argmin())


def test_every_resample_has_as_many_prompts_of_each_stratum() -> None:
    counts = Strata(NUMBER).counts(Sampling(50))
    for stratum in range(3):
        assert (counts[:, stratum == NUMBER].sum(1) == (stratum == NUMBER).sum()).all()
    assert (counts != 1).any()


def test_clusters_are_drawn_as_one_inside_strata() -> None:
    cluster = np.array([0, 0, 1, 2, 3, 4, 4, 5, 5])
    counts = Strata(NUMBER).counts(Sampling(50, cluster=cluster))
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 5] == counts[:, 6]).all()


@pytest.mark.parametrize("cells", [20_000_000, 4])
def test_the_share_is_that_of_resamples_in_which_a_candidate_wins(cells: int) -> None:
    strata, sampling = Strata(NUMBER), Sampling(300)
    wins = np.zeros(len(VALUES))
    for counts in strata.counts(sampling):
        means = [
            np.mean([np.average(row[s == NUMBER], weights=counts[s == NUMBER]) for s in range(3)]) for row in VALUES
        ]
        wins[int(np.argmin(means))] += 1
    np.testing.assert_allclose(cheapest_again(VALUES, sampling, strata, cells=cells), wins / 300)


def test_what_is_always_cheapest_wins_always_and_equals_share() -> None:
    values = RNG.normal(size=20)
    shares = cheapest_again(np.stack([values + 1, values, values]), Sampling(100))
    assert shares.tolist() == [0, 0.5, 0.5]
    rounded = cheapest_again(np.stack([values, values + 4e-7, values - 4e-7]), Sampling(100), rounding=1e-6)
    np.testing.assert_allclose(rounded, 1 / 3)


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_shares_add_up_and_equal_costs_have_equal_shares(data: st.DataObject) -> None:
    """In any order of the candidates; a cost that is NaN never wins."""
    candidates, prompts = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 8))
    levels = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 40.0, math.nan]), min_size=prompts, max_size=prompts)
    values = np.array(data.draw(st.lists(levels, min_size=candidates, max_size=candidates)))
    shares = cheapest_again(values, Sampling(40))
    has_nan = np.isnan(values).any(axis=1)
    if has_nan.all():
        assert np.isnan(shares).all()
        return
    assert shares.sum() == pytest.approx(1)
    assert (shares[has_nan] == 0).all()
    for first, second in combinations(range(candidates), 2):
        if np.array_equal(values[first], values[second]):
            assert shares[first] == pytest.approx(shares[second])
    order = data.draw(st.permutations(range(candidates)))
    np.testing.assert_allclose(cheapest_again(values[order], Sampling(40)), shares[order])

"""Shares of clustered things: their intervals cover, also of few clusters that differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from bathyscope.statistics.bootstrap import Interval
from bathyscope.statistics.shares import clustered_share, difference_of


def test_of_all_hits_or_none_it_is_clopper_and_pearsons() -> None:
    for hits in (0, 60):
        share, found = clustered_share([hits / 3] * 3, [20] * 3)
        exact = stats.binomtest(hits, 60).proportion_ci(0.95, "exact")
        assert share == hits / 60
        assert found == pytest.approx((exact.low, exact.high))


def test_things_that_come_in_pairs_count_as_one() -> None:
    rng = np.random.default_rng(0)
    single = rng.random(400) < 0.3
    _, alone = clustered_share(single, np.ones(400))
    _, paired = clustered_share(2 * single, np.full(400, 2))
    assert (paired.high - paired.low) == pytest.approx(alone.high - alone.low, rel=0.01)
    _, unclustered = clustered_share(np.repeat(single, 2), np.ones(800))
    assert paired.high - paired.low > 1.3 * (unclustered.high - unclustered.low)


def test_empty_clusters_and_single_ones() -> None:
    assert clustered_share([3, 0, 2], [5, 0, 6]) == clustered_share([3, 2], [5, 6])
    share, interval = clustered_share([3], [5])
    assert share == 0.6
    assert all(map(math.isnan, interval))
    assert math.isnan(clustered_share([], [])[0])


def test_the_difference_is_newcombes() -> None:
    """His first example, 56 of 70 less 48 of 80, method 10: 0.0524 to 0.3339 (1998, table II)."""
    one, other = ((x / n, Interval(*proportion_confint(x, n, 0.05, "wilson"))) for x, n in ((56, 70), (48, 80)))
    assert difference_of(one, other) == pytest.approx((0.0524, 0.3339), abs=5e-5)


@pytest.mark.parametrize("share", [0.1, 0.6, 0.97])
def test_both_cover_the_truth(share: float) -> None:
    """25 prompts of 40 tokens, whose own shares differ (beta, correlation 0.1 inside of a prompt)."""
    rng, runs = np.random.default_rng(1), 400
    counts = np.full(25, 40)
    held = apart = 0
    for _ in range(runs):
        pair = [
            clustered_share(rng.binomial(counts, rng.beta(9 * share, 9 * (1 - share), 25)), counts) for _ in range(2)
        ]
        held += pair[0][1].low <= share <= pair[0][1].high
        low, high = difference_of(*pair)
        apart += low <= 0 <= high
    assert held / runs > 0.92
    assert apart / runs > 0.92

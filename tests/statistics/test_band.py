"""Bands: runs against plain loops, the test against enumerated signs and against its own null."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bathyscope.statistics.band import find_band, heaviest_run, longest_run
from bathyscope.statistics.sampling import Sampling


def runs(row: np.ndarray) -> list[tuple[int, int]]:
    """Every run of True as (first, last), by a plain loop."""
    found: list[tuple[int, int]] = []
    for place, is_above in enumerate(row):
        if is_above and found and found[-1][1] == place - 1:
            found[-1] = (found[-1][0], place)
        elif is_above:
            found.append((place, place))
    return found


def test_longest_and_heaviest_runs_are_those_of_a_plain_loop() -> None:
    values = np.random.default_rng(0).normal(size=(200, 9))
    first, last = longest_run(values > 0)
    heaviest = heaviest_run(values)
    for row, start, end, weight in zip(values, first, last, heaviest):
        each = runs(row > 0)
        longest = max(each, key=lambda run: run[1] - run[0], default=None)
        assert (start, end) == longest if longest is not None else np.isnan(start) and np.isnan(end)
        assert weight == pytest.approx(max((row[a : b + 1].sum() for a, b in each), default=0.0))


def test_a_planted_band_is_found_with_its_ends() -> None:
    rng = np.random.default_rng(1)
    differences = rng.normal(scale=0.3, size=(40, 12)) - 0.5
    differences[:, 4:9] += 1.5
    band = find_band(differences, Sampling())
    assert (band.first, band.last) == (4, 8)
    assert band.p < 0.001
    assert band.first_interval.low <= 4 <= band.first_interval.high
    assert band.last_interval.low <= 8 <= band.last_interval.high


def test_p_is_the_share_of_signs_that_give_as_heavy_a_run() -> None:
    differences = np.random.default_rng(2).normal(size=(5, 4)) + 0.3
    weight = heaviest_run(differences.sum(0)[None])[0]
    signs = [np.array(s) for s in product((1, -1), repeat=5)]
    expected = np.mean([heaviest_run((s @ differences)[None])[0] >= weight - 1e-12 for s in signs])
    assert find_band(differences, Sampling()).p == pytest.approx(expected)


def test_without_a_difference_p_is_small_as_seldom_as_it_says() -> None:
    rng = np.random.default_rng(3)
    small = [find_band(rng.normal(size=(12, 8)), Sampling(resamples=2)).p <= 0.1 for _ in range(200)]
    assert np.mean(small) < 0.16


def test_clusters_have_their_signs_in_common() -> None:
    """Four copies of each prompt are no more evidence than one."""
    differences = np.random.default_rng(4).normal(size=(6, 5)) + 0.4
    copies = np.repeat(differences, 4, axis=0)
    cluster = np.repeat(np.arange(6), 4)
    alone = find_band(differences, Sampling())
    together = find_band(copies, Sampling(cluster=cluster))
    assert together.p == alone.p
    assert find_band(copies, Sampling()).p < alone.p


def test_nothing_measured_gives_nothing() -> None:
    nothing = find_band(np.full((3, 4), np.nan), Sampling())
    assert np.isnan([nothing.first, nothing.last, nothing.p]).all()
    below = find_band(-np.ones((3, 4)), Sampling())
    assert np.isnan(below.first)
    assert below.p == 1.0
    single = find_band(np.ones((1, 4)), Sampling())
    assert (single.first, single.last) == (0, 3)
    assert np.isnan(single.p)


def test_places_without_values_are_in_no_band() -> None:
    differences = np.ones((8, 5))
    differences[:, 0] = np.nan
    differences[0] = np.nan  # a prompt that is not read
    band = find_band(differences, Sampling())
    assert (band.first, band.last) == (1, 4)

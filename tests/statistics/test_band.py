"""Bands: the run that is named is the run that is tested, against loops, enumerated signs and kinds of null."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bathyscope.statistics.band import Band, find_band, longest_run
from bathyscope.statistics.sampling import Sampling

LEVEL = 0.05
BRIEF = Sampling(resamples=100)


def runs(row: np.ndarray) -> list[tuple[int, int]]:
    """Every run of True as (first, last), by a plain loop."""
    ends: list[tuple[int, int]] = []
    for place, is_above in enumerate(row):
        if is_above and ends and ends[-1][1] == place - 1:
            ends[-1] = (ends[-1][0], place)
        elif is_above:
            ends.append((place, place))
    return ends


def strengths(values: np.ndarray) -> np.ndarray:
    return np.array([column.sum() / np.sqrt((column**2).sum()) for column in values.T])


def walks(rng: np.random.Generator, prompts: int, places: int) -> np.ndarray:
    """Noise whose neighbouring places are alike, as those of boundaries are."""
    return rng.normal(size=(prompts, places)).cumsum(1) + rng.normal(scale=3, size=(prompts, 1))


def most_errors(draws: int) -> float:
    """The nominal share of errors, and three standard errors of counting so many."""
    return LEVEL + 3 * (LEVEL * (1 - LEVEL) / draws) ** 0.5


def test_longest_runs_are_those_of_a_plain_loop() -> None:
    above = np.random.default_rng(0).normal(size=(200, 9)) > 0
    for row, first, last in zip(above, *longest_run(above)):
        longest = max(runs(row), key=lambda run: run[1] - run[0], default=None)
        assert (first, last) == longest if longest is not None else np.isnan(first) and np.isnan(last)


def test_a_planted_band_is_reported_with_its_ends_and_its_gain() -> None:
    rng = np.random.default_rng(1)
    differences = rng.normal(scale=0.3, size=(40, 12)) - 0.5
    differences[:, 4:9] += 1.5
    band = find_band(differences, Sampling())
    assert (band.first, band.last) == (4, 8)
    assert band.p < 0.001
    assert band.first_interval.low <= 4 <= band.first_interval.high
    assert band.last_interval.low <= 8 <= band.last_interval.high
    assert band.gain == pytest.approx(differences[:, 4:9].mean())
    assert 0 < band.gain_interval.low < band.gain < band.gain_interval.high


def test_the_run_that_is_named_is_never_a_longer_one_of_noise() -> None:
    """One heavy short run, and a long one whose means lie above 0 by less than they are known."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        differences = walks(rng, 16, 20)
        errors = differences.std(0, ddof=1) / 4
        differences += 0.8 * errors - differences.mean(0)
        differences[:, 0] = rng.normal(80, 10, size=16)
        differences[:, 1] = rng.normal(-10, 1, size=16)
        assert runs(differences.mean(0) > 0) == [(0, 0), (2, 19)]
        band = find_band(differences, BRIEF)
        assert (band.first, band.last) == (0, 0)
        alone = find_band(differences[:, 1:], BRIEF)
        assert np.isnan(alone.first)
        assert alone.p > LEVEL


def test_every_place_of_a_band_holds_by_itself() -> None:
    """A place that is not sure ends the band, however strong its neighbours are."""
    differences = np.random.default_rng(6).normal(2, 0.3, size=(16, 9))
    differences[:, 3] = np.resize([4.0, -3.9], 16)
    band = find_band(differences, BRIEF)
    assert differences.mean(0).min() > 0
    assert (band.first, band.last) == (4, 8)


def test_p_is_the_share_of_signs_with_a_run_as_strong_as_the_one_that_is_named() -> None:
    differences = np.random.default_rng(2).normal(size=(8, 4))
    differences[:, 1:3] += 2.5
    strongest = [strengths(differences * np.array(s)[:, None]).max() for s in product((1, -1), repeat=8)]
    each = [np.mean(np.array(strongest) >= strength - 1e-9) for strength in strengths(differences)]
    expected = [run for run in runs(np.array(each) <= LEVEL) if run == (1, 2)]
    band = find_band(differences, Sampling())
    assert [(band.first, band.last)] == expected
    assert band.p == pytest.approx(max(each[1:3]))
    # without a band, p is that of the strongest place
    nothing = find_band(differences[:, [0, 3]], Sampling())
    strongest = [strengths(differences[:, [0, 3]] * np.array(s)[:, None]).max() for s in product((1, -1), repeat=8)]
    assert np.isnan(nothing.first)
    assert nothing.p == pytest.approx(np.mean(strongest >= strengths(differences[:, [0, 3]]).max() - 1e-9))


def test_a_run_whose_own_interval_holds_0_is_no_band() -> None:
    """One prompt says nearly everything: the signs agree, and the interval of the mean is wide."""
    differences = np.full((6, 3), 0.01)
    differences[0] = 10.0
    band = find_band(differences, Sampling())
    assert band.p <= LEVEL
    assert band.gain_interval.low <= 0
    assert np.isnan([band.first, band.last, *band.first_interval, *band.last_interval]).all()


@pytest.mark.parametrize("scale", ["independent", "walks"])
def test_without_a_difference_bands_are_as_rare_as_the_level_says(scale: str) -> None:
    rng = np.random.default_rng(3)
    draw = walks if scale == "walks" else (lambda rng, prompts, places: rng.normal(size=(prompts, places)))
    bands = [find_band(draw(rng, 10, 12), Sampling(resamples=2)) for _ in range(300)]
    assert np.mean([band.p <= LEVEL for band in bands]) <= most_errors(300)
    assert np.mean([not np.isnan(band.first) for band in bands]) <= most_errors(300)
    # not because nothing can be reported
    assert np.mean([band.p <= LEVEL for band in bands]) > 0.01


@pytest.mark.thorough
@pytest.mark.parametrize("prompts", [6, 12, 40])
@pytest.mark.parametrize("noise", ["normal", "heavy tails", "clusters", "next to a gain"])
def test_bands_of_noise_are_rare_whatever_the_noise(noise: str, prompts: int) -> None:
    """Also next to places that do have a gain: no place without one is in a band more often than the level says."""
    rng = np.random.default_rng([prompts, len(noise)])
    draws = 1000

    def errs() -> bool:
        values = walks(rng, prompts, 12)
        if noise == "heavy tails":
            values *= rng.standard_t(2, size=(prompts, 1))
        if noise == "next to a gain":
            values[:, :2] += 60
            band = find_band(values, Sampling(resamples=2))
            return bool(band.last > 1)
        if noise == "clusters":
            cluster = np.repeat(np.arange(prompts), 3)
            values = values[cluster] + rng.normal(size=(prompts * 3, 12))
            return not np.isnan(find_band(values, Sampling(resamples=2, cluster=cluster)).first)
        return not np.isnan(find_band(values, Sampling(resamples=2)).first)

    assert np.mean([errs() for _ in range(draws)]) <= most_errors(draws)


def test_clusters_have_their_signs_in_common() -> None:
    """Four copies of each prompt are no more evidence than one."""
    differences = np.random.default_rng(4).normal(size=(6, 5)) + 0.4
    copies = np.repeat(differences, 4, axis=0)
    cluster = np.repeat(np.arange(6), 4)
    alone = find_band(differences, Sampling())
    together = find_band(copies, Sampling(cluster=cluster))
    assert together.p == alone.p
    assert find_band(copies, Sampling()).p < alone.p


def is_empty(band: Band) -> bool:
    return bool(np.isnan([band.first, band.last, *band.first_interval, *band.last_interval]).all())


def test_nothing_measured_gives_nothing() -> None:
    for differences in (np.full((3, 4), np.nan), np.ones((1, 4))):
        nothing = find_band(differences, Sampling())
        assert is_empty(nothing)
        assert np.isnan(nothing.p)
    below, nowhere = find_band(-np.ones((8, 4)), Sampling()), find_band(np.zeros((8, 4)), Sampling())
    assert is_empty(below)
    assert is_empty(nowhere)
    assert below.p == nowhere.p == 1.0


def test_four_prompts_are_too_few_for_any_band() -> None:
    assert find_band(np.ones((4, 3)), Sampling()).p == 1 / 16
    assert is_empty(find_band(np.ones((4, 3)), Sampling()))
    assert find_band(np.ones((5, 3)), Sampling()).last == 2


def test_places_without_values_are_in_no_band() -> None:
    differences = np.ones((8, 5))
    differences[:, 0] = np.nan
    differences[0] = np.nan  # a prompt that is not read
    band = find_band(differences, Sampling())
    assert (band.first, band.last) == (1, 4)
    differences[3, 2] = np.nan
    band = find_band(differences, Sampling())
    assert (band.first, band.last) == (3, 4)

"""A bootstrap's settings are checked where they are made."""

from typing import Any

import numpy as np
import pytest

from bathyscope.errors import OptionError
from bathyscope.extend.statistics import (
    Reading,
    Sampling,
    Term,
    compared_with_best,
    contrast,
    mean_interval,
    resample_counts,
    trend,
)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resamples": 0}, "Sampling: resamples=0 is out of range; allowed: 1 or more."),
        ({"resamples": 2.5}, "Sampling: resamples takes a whole number; 2.5 given."),
        ({"level": 95}, "Sampling: level=95.0 is out of range; allowed: above 0 and below 1."),
        ({"level": 1.0}, "Sampling: level=1.0 is out of range"),
        ({"level": "0.95"}, "Sampling: level takes a number; '0.95' given."),
        ({"seed": -1}, "Sampling: seed=-1 is out of range; allowed: 0 to 4294967295."),
        ({"seed": None}, "Sampling: seed takes a whole number; None given."),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Sampling(**settings)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    assert Sampling(resamples=1, level=0.5, seed=(1 << 32) - 1).counts(3).sum() == 3


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((3, -1), "resamples=-1 is out of range; allowed: 1 or more"),
        ((3, 2.5), "resamples takes a whole number; 2.5 given"),
        ((-3, 5), "n_prompts=-3 is out of range; allowed: 0 or more"),
        ((2.5, 5), "n_prompts takes a whole number; 2.5 given"),
    ],
)
def test_prompts_are_drawn_a_whole_number_of_times(counts: tuple[Any, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        resample_counts(*counts, np.random.default_rng(0))


@pytest.mark.parametrize("sampling", [1000, {"level": 0.9}, None])
def test_what_is_no_sampling_is_refused(sampling: Any) -> None:
    values = np.array([[1.0, 2.0, 4.0], [2.0, 2.0, 3.0]])
    term = Term(Reading(values.T, np.ones(3), lambda means: means[..., 0]), 1.0)
    for estimate in (
        lambda: mean_interval(values[0], sampling),
        lambda: compared_with_best(values, sampling),
        lambda: contrast([[term]], sampling),
    ):
        with pytest.raises(OptionError, match=r"sampling=.* is no Sampling; give one such as Sampling\(resamples=1000"):
            estimate()


def test_clusters_are_one_number_a_prompt() -> None:
    pairs: Any = np.ones((3, 2), dtype=int)
    with pytest.raises(OptionError, match=r"Sampling: cluster of shape \[3, 2\] is not one value for each prompt"):
        Sampling(cluster=pairs)


def test_a_list_of_clusters_is_drawn_as_an_array() -> None:
    listed: Any = [0, 0, 1, 2]
    expected = Sampling(resamples=20, cluster=np.array(listed)).counts(4)
    assert np.array_equal(Sampling(resamples=20, cluster=listed).counts(4), expected)
    assert Sampling(cluster=listed).take([True, False, True, True]).counts(3).shape == (1000, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": 0}, "permutations=0 is out of range; allowed: 1 or more"),
        ({"permutations": "many"}, "permutations takes a whole number; 'many' given"),
        ({"seed": -1}, "seed=-1 is out of range"),
    ],
)
def test_a_trend_is_tested_by_some_signs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        trend(range(1, 30), [1, 2, 3] * 9 + [1, 2], **options)

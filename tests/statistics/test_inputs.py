"""What estimates are computed from is refused where it is not one number a prompt, with what helps."""

import numpy as np
import pytest

from bathyscope.errors import OptionError
from bathyscope.extend.statistics import (
    Reading,
    Sampling,
    Term,
    bootstrap_interval,
    contrast,
    mean_interval,
    resample_counts,
    share_difference_interval,
    share_interval,
    trend,
)

VALUES = np.arange(12.0)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (["a", "b"], {}, "values=.*are no numbers; give one for each prompt"),
        (np.ones((3, 4)), {}, r"values of shape \[3, 4\] are not one number for each prompt"),
        (VALUES, {"weights": [1.0, 2.0]}, "weights has 2 values for 12 prompts; give one for each prompt"),
        (VALUES, {"weights": -np.ones(12)}, "A weight is not positive; weights are token counts, or ones"),
        (VALUES, {"weights": np.zeros(12)}, "A weight is not positive"),
        (VALUES, {"weights": np.full(12, np.nan)}, "A weight is not positive"),
        (VALUES, {"sampling": Sampling(cluster=np.zeros(3, int))}, "cluster has 3 values for 12 prompts"),
        (VALUES, {"limits": (0.0, 1.0)}, "do not hold the estimate 5.5; give the smallest and the largest"),
        (VALUES, {"limits": (20.0, 0.0)}, "are no range; give the smallest value first"),
    ],
)
def test_a_mean_of_what_is_not_one_number_a_prompt_is_refused(values, options, words):
    with pytest.raises(OptionError, match=words):
        mean_interval(values, **options)


def test_a_mean_at_its_limit_up_to_rounding_has_an_interval():
    thirds = np.full(3, 0.1)
    assert thirds @ np.ones(3) / 3 > 0.1  # rounded beyond the limit
    assert mean_interval(thirds, limits=(0.0, 0.1)).high == 0.1


@pytest.mark.parametrize("level", [0, 1, 95, "0.95", float("nan")])
def test_a_coverage_that_is_no_share_is_refused_wherever_it_is_given(level):
    for compute in (
        lambda: share_interval([1, 0], level=level),
        lambda: share_difference_interval([1, 0], [0, 0], level=level),
        lambda: bootstrap_interval(1.0, np.ones(50), np.ones(5), level=level, limits=(0.0, 2.0)),
        lambda: trend([1.0, 2.0, 4.0], [1, 2, 3], coverage=level),
    ):
        with pytest.raises(OptionError, match=r"level|coverage"):
            compute()


@pytest.mark.parametrize(
    ("scores", "difficulty", "options", "words"),
    [
        ([1.0, 2.0, 3.0], [1, 2], {}, "difficulty has 2 values for 3 prompts"),
        ([1.0, 2.0, 3.0], ["a", "b", "c"], {}, "difficulty=.*are no numbers"),
        ([1.0, 2.0, 3.0], [1, 2, 3], {"cluster": [0, 1]}, "cluster has 2 values for 3 prompts"),
    ],
)
def test_a_trend_needs_one_number_of_each_kind_a_prompt(scores, difficulty, options, words):
    with pytest.raises(OptionError, match=words):
        trend(scores, difficulty, **options)


@pytest.mark.parametrize("cohorts", [[], [[]], [[1.0]]])
def test_a_contrast_needs_terms(cohorts):
    with pytest.raises(OptionError, match=r"cohorts are lists of one Term\(reading, coefficient\) or more"):
        contrast(cohorts)


def test_a_contrast_refuses_clusters_that_are_not_its_readings_own():
    reading = Reading(np.arange(4.0)[:, None], np.ones(4), lambda means: means[..., 0])
    with pytest.raises(OptionError, match="leave cluster out of the sampling, and give it to Reading"):
        contrast([[Term(reading, 1.0)]], Sampling(cluster=np.arange(4)))


@pytest.mark.parametrize("rng", [0, np.random.RandomState(0), None])
def test_resampling_needs_a_generator_of_numpy(rng):
    with pytest.raises(OptionError, match=r"draws nothing; give numpy.random.default_rng\(seed\)"):
        resample_counts(3, 5, rng)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"locate": None}, "locate=None cannot be called; give a function from mean values to estimates"),
        ({"whole": 3}, "whole=3 cannot be called; give a function"),
        ({"values": [["a"], ["b"]]}, "values=.*are no numbers"),
        ({"values": [[1.0], [2.0, 3.0]]}, "values=.*are no numbers"),
        ({"weights": ["a", "b"]}, "weights=.*are no numbers"),
        ({"cluster": np.arange(3)}, "cluster has 3 values for 2 prompts"),
        ({"limits": (1.0, 0.0)}, "are no range; give the smallest value first"),
    ],
)
def test_a_reading_is_refused_where_it_is_made(fields, words):
    sound = {"values": [[1.0], [2.0]], "weights": [1.0, 1.0], "locate": lambda means: means[..., 0]}
    with pytest.raises(OptionError, match=words):
        Reading(**{**sound, **fields})


@pytest.mark.parametrize(
    ("reading", "coefficient", "words"),
    [
        ("x", 1.0, "reading='x' is no Reading; give Reading"),
        (None, "1", "coefficient='1' is no number"),
        (None, float("nan"), "coefficient=nan is no number"),
    ],
)
def test_a_term_is_refused_where_it_is_made(reading, coefficient, words):
    mean = Reading(np.ones((2, 1)), np.ones(2), lambda means: means[..., 0])
    with pytest.raises(OptionError, match=words):
        Term(mean if reading is None else reading, coefficient)


def test_a_term_without_a_coefficient_is_an_error_of_the_call():
    with pytest.raises(TypeError, match="coefficient"):
        Term("x")

"""Intervals stay within what a variable can be: one table says it, for every variable of every measure."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope.labels import RANGES, Label, labelled, mean_limits, range_of
from bathyscope.measures.registry import MEASURES
from bathyscope.pages.figures.kit.series import Curve, looks, summarise_curve
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.by_place import by_place
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.hsic import cka, even_groups, minibatch_sums

MEASURED = sorted(
    {
        name
        for declaration in MEASURES.values()
        for name, label in declaration.table.items()
        if "prompt" in label.most and label.units in ("1", "nats", "bits", "boundary") and label.limits is None
    }
)
"""Variables of single prompts, whose means have intervals; without those that say their limits themselves."""
UNLIMITED = {
    *("kl_top_p", "kl_tail", "interaction", "recovered", "recovered_all", "change", "change_all", "log_p"),
    *("recovered_at", "change_at", "logit"),
    *("attribution", "completeness", "mean", "largest_token", "largest_channel", "operand_left", "top_id"),
    *("jacobian_id", "piece", "added_loss", "n_averaged", "cost", "score", "self_repair"),
}
"""Those that may be any number, or are none."""
LIMITED = [name for name in MEASURED if range_of(name) != (-math.inf, math.inf)]


def test_every_variable_of_a_prompt_has_a_range_or_is_known_to_have_none() -> None:
    unknown = [name for name in MEASURED if name not in LIMITED and name not in UNLIMITED]
    assert unknown == []
    assert {"output_all", "overlap", "top1_kept", "cos_block", "jsd", "kl_lens_final", "norm_resid"} <= set(LIMITED)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("output_all", (0, math.sqrt(2))),
        ("cos_neighbour", (-1, 1)),
        ("cka", (-1, 1)),
        ("top1_kept", (0, 1)),
        ("kl_lens_final", (0, math.inf)),
        ("kl_tail", (-math.inf, math.inf)),
        ("change", (-math.inf, math.inf)),
        ("anything", (-math.inf, math.inf)),
    ],
)
def test_ranges_of_some_names(name: str, limits: tuple[float, float]) -> None:
    assert range_of(name) == limits
    assert sum(bool(re.fullmatch(pattern, name)) for pattern in RANGES) <= 2


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(LIMITED), st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([0.05, 1.0, 20.0]))
def test_no_interval_leaves_what_its_variable_can_be(name: str, prompts: int, seed: int, skew: float) -> None:
    """Few prompts, far apart and at the ends: Student's interval alone would leave the range nearly always."""
    low, high = range_of(name)
    rng = np.random.default_rng(seed)
    width = min(high, 50.0) - max(low, -50.0)
    values = max(low, -50.0) + width * rng.beta(skew, 1 / skew, (prompts, 5))
    values[:, 0] = values[0, 0]
    limits = mean_limits(name, values)
    assert limits == (low, high)
    for mean, interval in zip(values.mean(0), mean_intervals(values, limits=limits)):
        assert low <= interval.low <= mean + 1e-12
        assert mean - 1e-12 <= interval.high <= high


def test_cutting_an_interval_at_what_is_possible_costs_no_coverage() -> None:
    """What is cut off holds no possible mean: the same draws are covered, with and without."""
    rng = np.random.default_rng(0)
    truth, covered = 0.1 / (0.1 + 1.0), np.zeros(2)
    for _ in range(300):
        values = rng.beta(0.1, 1.0, (6, 1))
        for number, limits in enumerate([(-math.inf, math.inf), (0.0, 1.0)]):
            (interval,) = mean_intervals(values, limits=limits)
            covered[number] += interval.low <= truth <= interval.high
    assert covered[0] == covered[1] > 0


@settings(max_examples=60, deadline=None)
@given(st.integers(8, 16), st.integers(0, 10**6), st.floats(0, 3))
def test_a_similarity_is_between_minus_one_and_one_as_a_whole(n: int, seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    first = rng.standard_t(2, size=(n, 4))
    second = first + noise * rng.standard_t(2, size=(n, 4))
    found = cka(minibatch_sums(first[None], second[None], even_groups(n, 16)))
    value, low, high = (float(array[0, 0]) for array in (found.values, found.low, found.high))
    if not math.isnan(low):
        assert -1 <= low <= value <= high <= 1 + 1e-9


@pytest.mark.parametrize("limits", [(1.0, math.inf), (-math.inf, math.inf), (-0.25, math.sqrt(2))])
def test_a_label_says_what_its_variable_can_be(limits: tuple[float, float]) -> None:
    """Whatever the name is: a weight is a share, unless its own label says otherwise."""
    label = Label("prompt boundary", "size", source="own", limits=limits)
    measured = labelled({"weight": label}, {"weight": np.full((3, 2), 1.0)})["weight"]
    assert mean_limits("weight", measured) == limits
    assert mean_limits("weight", measured.sel(boundary=0)) == limits
    assert mean_limits("weight", measured - 2 if limits[0] == 1 else measured.drop_attrs()) != limits
    assert mean_limits("weight", measured.assign_attrs(range="small")) == (-math.inf, math.inf)


def test_intervals_in_figures_stay_within_what_a_label_says() -> None:
    values = np.array([[1.0, 1.1, 1.0, 40.0]]).T
    assert mean_intervals(values)[0].low < 1 == mean_intervals(values, limits=(1.0, math.inf))[0].low
    label = Label("prompt boundary", "rank of a prompt", source="own", limits=(1.0, math.inf))
    coords = {"boundary": [0], "n_tokens": ("prompt", [9, 9, 9, 9])}
    dataset = labelled({"unheard_of": label}, {"unheard_of": values}, coords)
    drawn = summarise_curve(dataset, Curve("unheard_of", "", looks(1)[0]), FigureOptions())
    assert drawn.summary.low == 1
    (listed,) = by_place(dataset, seed=0)
    assert listed.intervals[0].low == 1


def test_a_value_beyond_is_another_quantitys() -> None:
    assert mean_limits("overlap", np.array([0.2, 1.4])) == (-math.inf, math.inf)

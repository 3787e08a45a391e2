"""What stands out in a curve or a map, and when a reading counts as right."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

from studies.planted import Verdict
from studies.planted.reading import marked, marked_pairs, verdict


def curve(*prompts: list[float]) -> xr.DataArray:
    return xr.DataArray(np.array(prompts), dims=("prompt", "block"), coords={"block": np.arange(len(prompts[0]))})


def test_a_tenth_of_the_largest_mean_over_prompts_stands_out() -> None:
    assert marked(curve([2.0, 0.0, 0.21, 0.19], [0.0, 0.0, 0.0, 0.0]), "block") == {0, 2}


def test_what_is_below_the_floor_and_what_does_not_exist_does_not_stand_out() -> None:
    assert marked(curve([9e-4, 1e-5]), "block") == set()
    assert marked(curve([math.nan, 3.0, math.nan]), "block") == {1}


def test_pairs_are_those_of_an_earlier_and_a_later_block() -> None:
    effect = xr.DataArray(
        np.array([[[1.0, 0.5, 0.01], [0.0, 1.0, 0.0], [0.9, 0.0, 1.0]]]), dims=("prompt", "skipped", "block")
    )
    assert marked_pairs(effect) == {(0, 1)}


@pytest.mark.parametrize(
    ("said", "true", "wanted"),
    [
        (4.0, 5.0, Verdict.RIGHT),
        (6.1, 5.0, Verdict.FOOLED),
        (math.nan, 5.0, Verdict.SILENT),
        (frozenset({1, 2}), frozenset({1, 2}), Verdict.RIGHT),
        (frozenset({1}), frozenset({1, 2}), Verdict.FOOLED),
        (frozenset({(1, 2)}), frozenset({(1, 2), (1, 3)}), Verdict.FOOLED),
        (frozenset(), frozenset(), Verdict.RIGHT),
    ],
)
def test_a_number_may_miss_by_one_block_and_a_set_by_nothing(
    said: float | frozenset[int], true: float | frozenset[int], wanted: Verdict
) -> None:
    assert verdict(said, true) is wanted

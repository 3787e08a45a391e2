"""Depth by which of two models solve a problem: means by hand, and what is left at equal numbers of steps."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bathyscope.lab.experiments.problem_classes import FEW, by_class

STEPS = np.repeat([1, 2, 3, 4], 30)
DEEPER = 0.5
"""How much deeper a problem that only the deep model solves is read than another of as many steps."""


@pytest.fixture(scope="module")
def right() -> xr.DataArray:
    """2 blocks solve few problems of many steps, 4 and 8 blocks most: (blocks, seed, prompt)."""
    draw = np.random.default_rng(0)
    shares = np.array([[0.9, 0.6, 0.3, 0.1], [0.9, 0.9, 0.7, 0.6], [1.0, 1.0, 1.0, 1.0]])
    drawn = draw.random((3, 2, len(STEPS))) < shares[:, None, STEPS - 1]
    return xr.DataArray(drawn, {"blocks": [2, 4, 8], "seed": [0, 5]}, ("blocks", "seed", "prompt"))


@pytest.fixture(scope="module")
def value(right: xr.DataArray) -> xr.DataArray:
    """Reading "steps" is the number of steps; "classes" besides knows what 2 blocks cannot and 8 can."""
    noise = np.random.default_rng(1).normal(0, 0.1, right.shape)
    steps = xr.DataArray(STEPS + noise, right.coords, right.dims)
    beyond = right.sel(blocks=8, drop=True) & ~right.sel(blocks=2, drop=True)
    return xr.concat([steps, steps + DEEPER * beyond], "reading").assign_coords(reading=["steps", "classes"])


@pytest.fixture(scope="module")
def found(value: xr.DataArray, right: xr.DataArray) -> xr.Dataset:
    return by_class(value, right, STEPS)


def test_counts_steps_and_means_are_those_of_the_problems(
    found: xr.Dataset, value: xr.DataArray, right: xr.DataArray
) -> None:
    assert list(found.pair.values) == ["2 and 4 blocks", "2 and 8 blocks", "4 and 8 blocks"]
    assert (found.class_count.sum("solved_by") == len(STEPS)).all()
    own = found.sel(pair="2 and 8 blocks", seed=5)
    only_deep = (~right.sel(blocks=2, seed=5) & right.sel(blocks=8, seed=5)).values
    assert int(own.class_count.sel(solved_by="only deep")) == only_deep.sum() > 30
    assert float(own.class_steps.sel(solved_by="only deep")) == pytest.approx(STEPS[only_deep].mean())
    for role, blocks in (("shallow", 2), ("deep", 8)):
        one = own.sel(solved_by="only deep", read_in=role, reading="classes")
        mean = value.sel(reading="classes", blocks=blocks, seed=5).values[only_deep].mean()
        assert float(one.class_mean) == pytest.approx(mean)
        assert float(one.class_low) < mean < float(one.class_high)


def test_classes_without_problems_have_no_mean_and_small_ones_no_interval(found: xr.Dataset) -> None:
    own = found.sel(pair="2 and 8 blocks")
    assert (own.class_count.sel(solved_by=["neither", "only shallow"]) == 0).all()
    assert own.class_mean.sel(solved_by=["neither", "only shallow"]).isnull().all()
    counts, lows = xr.broadcast(found.class_count, found.class_low)
    assert lows.where(counts < FEW).isnull().all()
    assert lows.where(counts >= FEW).notnull().sum() == (counts >= FEW).sum()


def test_a_reading_that_knows_the_steps_alone_differs_between_classes_but_not_at_equal_steps(found: xr.Dataset) -> None:
    own = found.sel(pair="2 and 8 blocks", reading="steps", read_in="deep")
    apart = own.class_mean.sel(solved_by="only deep") - own.class_mean.sel(solved_by="both")
    assert (apart > 0.7).all()
    assert (own.class_low.sel(solved_by="only deep") > own.class_high.sel(solved_by="both")).all()
    assert (abs(own.same_steps) < 0.06).all()
    assert (own.same_steps_low < 0).all()
    assert (own.same_steps_high > 0).all()


def test_what_is_left_at_equal_steps_is_found(found: xr.Dataset) -> None:
    own = found.sel(pair="2 and 8 blocks", reading="classes")
    assert (own.same_steps_low < DEEPER).all()
    assert (own.same_steps_high > DEEPER).all()
    assert (own.same_steps_low > 0.4).all()


def test_the_interval_at_equal_steps_covers_the_difference() -> None:
    draw = np.random.default_rng(3)
    hits, trials = 0, 400
    for _ in range(trials):
        right = xr.DataArray(
            draw.random((2, 1, 40)) < 0.7, {"blocks": [1, 2], "seed": [0]}, ("blocks", "seed", "prompt")
        )
        beyond = (right.sel(blocks=2) & ~right.sel(blocks=1)).values
        steps = np.repeat([1, 2, 3, 4], 10)
        # problems of more steps, and those of one class, scatter more
        drawn = steps + 0.5 * beyond + draw.normal(size=(2, 1, 40)) * 0.2 * steps * (1 + beyond)
        value = xr.DataArray(drawn, right.coords, right.dims).expand_dims(reading=["one"])
        own = by_class(value, right, steps).isel(pair=0, seed=0, reading=0).sel(read_in="deep")
        if np.isnan(own.same_steps):
            trials -= 1
            continue
        hits += bool(own.same_steps_low <= 0.5 <= own.same_steps_high)
    assert trials > 250
    assert 0.925 < hits / trials < 0.985


def test_one_depth_has_no_pair(value: xr.DataArray, right: xr.DataArray) -> None:
    assert not by_class(value.sel(blocks=[4]), right.sel(blocks=[4]), STEPS)

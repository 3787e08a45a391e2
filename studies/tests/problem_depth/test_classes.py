"""Depth by which of two models solve a problem: means by hand, and what is left at equal numbers of steps."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from studies.problem_depth.classes import by_class

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


def test_classes_without_problems_have_no_mean(found: xr.Dataset) -> None:
    own = found.sel(pair="2 and 8 blocks", solved_by=["neither", "only shallow"])
    assert (own.class_count == 0).all()
    assert own.class_mean.isnull().all()
    assert own.class_low.isnull().all()


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


@pytest.mark.thorough
@pytest.mark.parametrize(("per_level", "share"), [(10, 0.3), (25, 0.08)])
def test_the_interval_at_equal_steps_covers_the_difference(per_level: int, share: float) -> None:
    draw = np.random.default_rng(3)
    steps = np.repeat([1, 2, 3, 4], per_level)
    coords, dims = {"blocks": [1, 2], "seed": [0]}, ("blocks", "seed", "prompt")
    covered = []
    while len(covered) < 300:
        solved = np.stack([draw.random(len(steps)) > share, np.ones(len(steps), bool)])[:, None]
        beyond = ~solved[0, 0]
        # problems of more steps, and those of the rarer class, scatter more
        scatter = 0.2 * steps * (1 + beyond)
        drawn = steps + 0.5 * beyond + draw.normal(size=(2, 1, len(steps))) * scatter
        value = xr.DataArray(drawn, coords, dims).expand_dims(reading=["one"])
        own = by_class(value, xr.DataArray(solved, coords, dims), steps).isel(pair=0, seed=0, reading=0)
        one = own.sel(read_in="deep")
        if one.same_steps.notnull():
            covered.append(bool(one.same_steps_low <= 0.5 <= one.same_steps_high))
    assert 0.925 <= np.mean(covered) <= 0.995


def test_few_problems_have_a_mean_and_no_interval_and_missing_readings_do_not_count() -> None:
    # by hand: only deep at steps 1 (×4, one without a reading) and 5 (×1), both at steps 1 (×6) and 2 (×1)
    steps = np.array([1] * 4 + [5] + [1] * 6 + [2])
    shallow = np.array([False] * 5 + [True] * 7)
    right = xr.DataArray(
        np.stack([shallow, np.ones(12, bool)])[:, None], {"blocks": [2, 4], "seed": [0]}, ("blocks", "seed", "prompt")
    )
    own = np.array([1.0, 2, 3, np.nan, 10, 1, 2, 1, 2, 1, 2, 5])
    value = xr.DataArray(
        np.broadcast_to(own, (2, 1, 12)), {"blocks": [2, 4], "seed": [0]}, ("blocks", "seed", "prompt")
    ).expand_dims(reading=["one"])
    found = by_class(value, right, steps).isel(pair=0, seed=0, reading=0).sel(read_in="deep")
    np.testing.assert_array_equal(found.class_count, [0, 0, 5, 7])
    np.testing.assert_array_equal(found.class_values, [0, 0, 4, 7])
    np.testing.assert_allclose(found.class_mean, [np.nan, np.nan, 4, 2])
    np.testing.assert_array_equal(found.class_low.notnull(), [False, False, False, True])
    np.testing.assert_allclose(found.class_steps.sel(solved_by="only deep"), 9 / 5)
    assert found.same_steps.isnull()  # at one step three problems against six


def test_the_difference_at_equal_steps_is_that_of_shared_steps() -> None:
    # step 1: five of each class, 3 apart; step 2 has one class only and says nothing
    steps = np.array([1] * 10 + [2] * 5)
    shallow = np.array([False] * 5 + [True] * 5 + [False] * 5)
    coords, dims = {"blocks": [2, 4], "seed": [0]}, ("blocks", "seed", "prompt")
    right = xr.DataArray(np.stack([shallow, np.ones(15, bool)])[:, None], coords, dims)
    for spread in (0.0, 0.5):
        around = spread * np.array([-2, -1, 0, 1, 2])
        own = np.concatenate([5 + around, 2 + around, 90 + around])
        value = xr.DataArray(np.broadcast_to(own, (2, 1, 15)), coords, dims).expand_dims(reading=["one"])
        found = by_class(value, right, steps).isel(pair=0, seed=0, reading=0).sel(read_in="shallow")
        assert float(found.same_steps) == pytest.approx(3)
        # where all agree there is nothing that an interval could follow from
        assert bool(found.same_steps_low.isnull()) == bool(found.same_steps_high.isnull()) == (spread == 0)
        assert bool(found.class_low.sel(solved_by="both").isnull()) == (spread == 0)


def test_one_depth_has_no_pair(value: xr.DataArray, right: xr.DataArray) -> None:
    assert not by_class(value.sel(blocks=[4]), right.sel(blocks=[4]), STEPS).data_vars


def test_a_reading_that_knows_the_moves_alone_does_not_differ_at_equal_moves(right: xr.DataArray) -> None:
    draw = np.random.default_rng(2)
    # what only the deep model solves has more moves among problems of as many steps
    beyond = (right.sel(blocks=8, seed=5) & ~right.sel(blocks=2, seed=5)).values
    moves = np.maximum(1, STEPS - 1 + beyond - draw.integers(0, 2, len(STEPS)))
    noise = draw.normal(0, 0.1, right.shape)
    value = xr.DataArray(moves + noise, right.coords, right.dims).expand_dims(reading=["moves"])
    own = by_class(value, right, STEPS, moves).sel(pair="2 and 8 blocks", seed=5, read_in="deep", reading="moves")
    assert float(own.same_steps_low) > 0.3
    assert float(own.same_moves_low) < 0 < float(own.same_moves_high)
    assert float(own.same_moves_high - own.same_moves_low) < 0.3

"""Slopes over moves at equal steps: what length alone brings is not counted."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from studies.problem_depth.moves import moves_slopes

STEPS = np.repeat([1, 2, 3, 4], 30)


def readings(moves: np.ndarray) -> xr.DataArray:
    draw = np.random.default_rng(0)
    noise = draw.normal(0, 0.1, (2, STEPS.size))
    values = np.stack([0.5 * STEPS, 0.5 * STEPS + 0.25 * moves]) + noise
    labels = {"steps": ("prompt", STEPS), "moves": ("prompt", moves)}
    return xr.DataArray(values, {"reading": ["length", "work"], **labels}, ("reading", "prompt"))


@pytest.fixture(scope="module")
def moves() -> np.ndarray:
    return STEPS - np.random.default_rng(1).integers(0, 2, STEPS.size)


def test_length_has_no_slope_and_work_has_its_own(moves: np.ndarray) -> None:
    found = moves_slopes(readings(moves), [1, 2, 3, 4], "steps")
    length, work = found.sel(reading="length"), found.sel(reading="work")
    assert float(length.moves_low) < 0 < float(length.moves_high)
    assert float(work.moves_low) < 0.25 < float(work.moves_high)
    assert float(work.moves_low) > 0


def test_the_slope_is_that_of_deviations_within_each_number_of_steps(moves: np.ndarray) -> None:
    value = readings(moves)
    found = moves_slopes(value, [2, 3], "steps")
    own = value.sel(reading="work").values
    deviations = []
    for series in (moves.astype(float), own):
        deviations.append(np.concatenate([series[k == STEPS] - series[k == STEPS].mean() for k in (2, 3)]))
    x, y = deviations
    assert float(found.moves_slope.sel(reading="work")) == pytest.approx(x @ y / (x @ x), rel=1e-9)


def test_problems_that_do_not_differ_in_moves_have_no_slope() -> None:
    found = moves_slopes(readings(STEPS), [1, 2, 3, 4], "steps")
    assert found.moves_slope.isnull().all()
    assert moves_slopes(readings(STEPS), [], "steps").moves_slope.isnull().all()

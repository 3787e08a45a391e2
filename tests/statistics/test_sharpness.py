"""Sharp or gradual: curves whose width is known, the test's size and power."""

from __future__ import annotations

import numpy as np
import pytest

from bathyscope.statistics.sharpness import sharpness, sharpness_of, summed, width


def test_widths_that_are_known() -> None:
    line = np.linspace(3.0, -2.0, 11)
    step = np.where(np.arange(11) < 6, 1.0, 0.0)
    ends = np.array([0.0, 0.5, *[0.5] * 8, 1.0])
    np.testing.assert_allclose(width([line, -line, step, ends]), [8.0, 8.0, 0.8, 9.6])
    np.testing.assert_allclose(sharpness_of([line, step, ends]), [0.0, 0.9, -0.2], atol=1e-12)
    # a piece of the way in one step and the rest evenly: by hand, 0.1 is reached at 0.2 and 0.9 at 4 + 4/5
    np.testing.assert_allclose(width(np.array([0, 0.5, 0.6, 0.7, 0.8, 0.925, 1.0])), 4 + 0.1 / 0.125 - 0.2)


def test_a_curve_that_goes_back_is_taken_by_its_nearest_monotone_one() -> None:
    np.testing.assert_allclose(width([0.0, 0.6, 0.4, 1.0]), width([0.0, 0.5, 0.5, 1.0]))
    assert np.isnan(width([[1.0, 1.0, 1.0], [0.0, np.nan, 1.0]])).all()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_units_and_origin_do_not_matter(unit: float) -> None:
    curve = np.random.default_rng(0).uniform(size=(5, 9)).cumsum(axis=1)
    np.testing.assert_allclose(width(unit * curve + 3 * unit), width(curve))


def test_effects_are_summed_up() -> None:
    np.testing.assert_array_equal(summed([[1.0, 2.0, 0.0], [np.nan] * 3]), [[0, 1, 3, 3], [np.nan] * 4])
    assert float(sharpness_of(summed(np.ones(7)))) == pytest.approx(0, abs=1e-12)


def test_the_mean_curve_is_read_and_the_straight_line_is_the_null() -> None:
    draw = np.random.default_rng(1)
    x = np.arange(13) / 12
    curves = {
        "gradual": x + draw.normal(0, 0.05, size=(20, 13)),
        "sharp": 1 / (1 + np.exp(-40 * (x - 0.5))) + draw.normal(0, 0.05, size=(20, 13)),
        "both ends": np.clip(x * 10, 0, 0.5) + np.clip(x * 10 - 9, 0, 0.5) * 0.99 + draw.normal(0, 0.01, size=(20, 13)),
    }
    found = {name: sharpness(one, resamples=300) for name, one in curves.items()}
    assert found["gradual"].p_value > 0.05
    assert found["sharp"].ci_low > 0.3
    assert found["both ends"].ci_high < 0
    for name, one in curves.items():
        assert found[name].estimate == pytest.approx(float(sharpness_of(one.mean(axis=0))))
    weights = np.r_[np.full(10, 3.0), np.ones(10)]
    mixed = sharpness(curves["sharp"], weights, resamples=10)
    assert mixed.estimate == pytest.approx(float(sharpness_of(weights @ curves["sharp"] / weights.sum())))
    pairs = np.repeat(np.arange(20), 2)
    doubled = sharpness(curves["sharp"][pairs], cluster=pairs, resamples=300)
    assert (doubled.ci_low, doubled.ci_high) == pytest.approx((found["sharp"].ci_low, found["sharp"].ci_high))


@pytest.mark.thorough
def test_gradual_curves_seldom_seem_sharp() -> None:
    """Straight lines with noise, each prompt's of its own slope: the mean is straight, and 5 % are expected."""
    draw, x = np.random.default_rng(2), np.arange(13) / 12
    found = [
        sharpness(x * draw.normal(1, 0.1, size=(15, 1)) + draw.normal(0, 0.05, size=(15, 13)), resamples=300)
        for _ in range(600)
    ]
    assert np.mean([one.p_value < 0.05 for one in found]) < 0.07

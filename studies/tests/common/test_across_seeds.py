"""Means and paired differences over seeds, against scipy's own intervals and tests."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from studies.common.across_seeds import apart, differences, means, said, show_together, shown

VALUES = np.random.default_rng(0).normal(size=(2, 3, 4))


@pytest.fixture
def value() -> xr.DataArray:
    return xr.DataArray(VALUES, {"recipe": ["a", "b"], "seed": [0, 1, 2], "quantity": list("wxyz")})


def test_means_have_students_interval(value: xr.DataArray) -> None:
    found = means(value)
    for i, recipe in enumerate("ab"):
        for j, quantity in enumerate("wxyz"):
            own = found.sel(recipe=recipe, quantity=quantity)
            wanted = stats.ttest_1samp(VALUES[i, :, j], 0).confidence_interval(0.95)
            np.testing.assert_allclose([own.mean_low, own.mean_high], [wanted.low, wanted.high])
            np.testing.assert_allclose(own["mean"], VALUES[i, :, j].mean())


def test_differences_are_paired(value: xr.DataArray) -> None:
    found = differences(value, "recipe")
    for j, quantity in enumerate("wxyz"):
        own = found.sel(quantity=quantity)
        wanted = stats.ttest_rel(VALUES[0, :, j], VALUES[1, :, j]).confidence_interval(0.95)
        np.testing.assert_allclose([own.difference_low, own.difference_high], [wanted.low, wanted.high])
    # what a seed does to both recipes alike cancels
    shifted = differences(value + xr.DataArray([5.0, -3.0, 11.0], dims="seed"), "recipe")
    xr.testing.assert_allclose(shifted, found)


def test_a_seed_without_a_value_is_left_out_of_both(value: xr.DataArray) -> None:
    value[0, 1, 2] = np.nan
    found = differences(value, "recipe").sel(quantity="y")
    assert int(found.difference_seeds) == 2
    np.testing.assert_allclose(found.difference, (VALUES[0, [0, 2], 2] - VALUES[1, [0, 2], 2]).mean())
    assert means(value).mean_seeds.values.tolist() == [[3, 3, 2, 3], [3, 3, 3, 3]]


def test_one_seed_has_no_interval(value: xr.DataArray) -> None:
    found = means(value.isel(seed=[0]))
    assert bool(found["mean"].notnull().all())
    assert bool(found.mean_low.isnull().all() & found.mean_high.isnull().all())


def test_a_row_says_the_interval_and_the_range(value: xr.DataArray) -> None:
    own = value.sel(recipe="a", quantity="x")
    row, over = said(own), means(own)
    assert (row["mean"], row["low"], row["high"]) == (over["mean"], over["mean_low"], over["mean_high"])
    assert (row["least"], row["most"], row["seeds"]) == (VALUES[0, :, 1].min(), VALUES[0, :, 1].max(), 3)
    assert shown(said(xr.DataArray([1.0, 2.0, 3.0], dims="seed"))) == "+2.00 (-0.48 to +4.48)"
    assert shown(said(own.isel(seed=[0])), "+.1f") == f"{VALUES[0, 0, 1]:+.1f}"
    assert shown(said(own * np.nan)) == "–"


def test_a_difference_is_between_two(value: xr.DataArray) -> None:
    with pytest.raises(ValueError, match="quantity has 4 members; a difference is between two"):
        differences(value, "quantity")


def test_models_that_share_no_seed_have_welchs_interval() -> None:
    ours, others = [2.02, 1.63, 1.89], [1.27, 1.82, 1.62, np.nan]
    found = apart(ours, others)
    a, b = np.array(ours), np.array(others[:3])
    errors = a.var(ddof=1) / 3, b.var(ddof=1) / 3
    degrees = sum(errors) ** 2 / sum(error**2 / 2 for error in errors)
    reach = stats.t.ppf(0.975, degrees) * np.sqrt(sum(errors))
    gap = a.mean() - b.mean()
    np.testing.assert_allclose([found["mean"], found["low"], found["high"]], [gap, gap - reach, gap + reach])
    assert found["high"] - found["low"] > 2 * stats.t.ppf(0.975, 4) * np.sqrt(sum(errors))
    alone = apart(ours, [1.0])
    assert alone["mean"] == pytest.approx(a.mean() - 1)
    assert np.isnan(alone["low"])
    assert np.isnan(apart([], ours)["mean"])


def test_models_of_equally_many_blocks_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    show_together({8: {"answers arrive": [4.96, 3.21, 3.78]}, 12: {"answers arrive": [8.02]}})
    printed = capsys.readouterr().out
    wanted = stats.ttest_1samp([4.96, 3.21, 3.78], 0).confidence_interval(0.95)
    assert f"+3.98 ({wanted.low:+.2f} to {wanted.high:+.2f})" in printed
    assert "8.02" not in printed
    show_together({12: {"answers arrive": [8.02]}})
    assert capsys.readouterr().out == ""

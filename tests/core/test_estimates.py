"""One way to write an estimate, and one rule for a missing number."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import xarray as xr

from bathyscope.core.estimates import Estimate, write_number, write_plainly, write_signed

NAN = math.nan


@pytest.mark.parametrize(
    ("estimate", "written"),
    [
        (Estimate(0.5, 0.25, 0.75), "0.50 (0.25 to 0.75)"),
        (Estimate(0.5), "0.50"),
        (Estimate(0.5, NAN, 0.75), "0.50"),
        (Estimate(0.5, 0.25, NAN), "0.50"),
        (Estimate(NAN, 0.25, 0.75), "–"),
        (Estimate(-0.5, -0.75, 0.25), "-0.50 (-0.75 to 0.25)"),
    ],
)
def test_an_estimate_is_written_with_its_interval(estimate: Estimate, written: str) -> None:
    assert f"{estimate:.2f}" == estimate.write(".2f") == written


def test_a_unit_follows_the_value_alone() -> None:
    assert Estimate(0.5, 0.25, 0.75).write(".1f", " nats") == "0.5 nats (0.2 to 0.8)"
    assert Estimate(NAN).write(".1f", " nats") == "–"


def test_in_brackets_an_interval_follows_a_comma() -> None:
    assert Estimate(0.5, -0.25, 0.75).write_in_brackets("+.2f") == "+0.50, -0.25 to +0.75"
    assert Estimate(0.5).write_in_brackets("+.2f") == "+0.50"
    assert Estimate(0.5).interval("+.2f") == "–"


def test_a_form_may_be_a_function() -> None:
    assert Estimate(0.5, -0.25, 0.0).write(write_signed) == "+0.500 (−0.250 to 0.000)"
    assert [write_signed(value, 1) for value in (0.04, -0.04, -0.06, NAN)] == ["0.0", "0.0", "−0.1", "–"]


def test_a_missing_number_is_a_dash() -> None:
    assert [write_number(value, ".1f") for value in (None, NAN, 0.0, 1)] == ["–", "–", "0.0", "1.0"]


def test_counts_are_grouped_and_other_numbers_have_four_digits() -> None:
    written = [write_plainly(value) for value in (298848, 298848.0, 9.28714, -0.5)]
    assert written == ["298,848", "298,848", "9.287", "-0.5"]


def test_an_estimate_is_read_by_its_name_off_whatever_holds_single_numbers() -> None:
    numbers = {"cost": 1.0, "cost_low": 0.5, "cost_high": 2.0, "ci_low": 0.1, "ci_high": 3.0, "p": 0.2}
    for holder in (numbers, pd.Series(numbers), xr.Dataset(numbers)):
        assert Estimate.of(holder, "cost") == Estimate(1.0, 0.5, 2.0)
        assert Estimate.of(holder, "cost", ends="ci") == Estimate(1.0, 0.1, 3.0)
        assert not Estimate.of(holder, "p").has_interval

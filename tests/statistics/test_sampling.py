"""A bootstrap's settings are checked where they are made."""

from typing import Any

import pytest

from bathyscope.errors import OptionError
from bathyscope.extend.statistics import Sampling


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

"""How many prompts an interval of a wanted width needs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bathyscope.statistics.sample_size import units_needed


def student_width(spread: float, units: int) -> float:
    return float(2 * stats.t.ppf(0.975, units - 1) * spread / np.sqrt(units))


@pytest.mark.parametrize("units", [5, 12, 40])
def test_the_range_holds_what_is_enough_as_often_as_it_says(units: int) -> None:
    """Of normal prompts of a known spread: four in five times, for samples of any size."""
    spread, rng = 2.0, np.random.default_rng(units)
    enough = next(n for n in range(2, 1000) if student_width(spread, n) <= 1)
    drawn = rng.normal(0, spread, (400, units)).std(1, ddof=1)
    ranges = [
        units_needed(student_width(own, units), units, 1.0, 0.95) for own in drawn if student_width(own, units) > 1
    ]
    held = np.mean([low <= enough <= high for low, high in ranges])
    # rounded up to two digits
    assert held == pytest.approx(0.8, abs=0.08)


def test_more_are_needed_than_there_are() -> None:
    low, high = units_needed(1.001, 40, 1.0, 0.95)
    assert 40 < low < high
    assert units_needed(3.0, 8, 1.0, 0.95)[1] > units_needed(2.0, 8, 1.0, 0.95)[1]


def test_a_known_spread_gives_the_smallest_size() -> None:
    """With very many units the spread is certain: the size is the one at which Student's interval is a block wide."""
    spread = 30.0
    low, high = units_needed(student_width(spread, 9000), 9000, 1.0, 0.95)
    enough = next(n for n in range(13000, 15000) if student_width(spread, n) <= 1)
    assert low <= enough * 1.05
    assert enough <= high <= enough * 1.1

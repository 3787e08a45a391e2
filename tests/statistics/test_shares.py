"""Intervals of shares: Wilson's formula, and a paired difference that covers what it should."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bathyscope.errors import OptionError
from bathyscope.statistics.shares import are_shares, share_difference_interval, share_interval


def test_wilsons_interval_by_its_formula() -> None:
    right, count, z = 7, 10, 1.959963984540054
    middle = (right / count + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z * math.sqrt(right / count * (1 - right / count) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    assert share_interval([1] * right + [0] * 3) == pytest.approx((middle - reach, middle + reach))


def test_the_paired_difference_by_hand() -> None:
    """Of 20 prompts 12 are right in both, 5 in the first alone, one in the second alone."""
    first = [1] * 12 + [1] * 5 + [0] * 1 + [0] * 2
    second = [1] * 12 + [0] * 5 + [1] * 1 + [0] * 2
    gap = (5.5 - 1.5) / 22
    error = math.sqrt((5.5 + 1.5) / 22 - gap**2) / math.sqrt(22)
    wanted = (gap - 1.959963984540054 * error, gap + 1.959963984540054 * error)
    assert share_difference_interval(first, second) == pytest.approx(wanted)
    assert share_difference_interval(second, first) == pytest.approx((-wanted[1], -wanted[0]))


def test_prompts_that_agree_in_everything_are_no_proof() -> None:
    few, many = (share_difference_interval([1] * count, [1] * count) for count in (5, 500))
    assert few[0] == -few[1] < -0.2
    assert -0.01 < many[0] < 0 < many[1] < 0.01


@pytest.mark.thorough
@pytest.mark.parametrize("count", [20, 100, 400])
@pytest.mark.parametrize("discordant", [(0.1, 0.02), (0.02, 0.02), (0.3, 0.1)])
def test_the_paired_interval_covers(count: int, discordant: tuple[float, float]) -> None:
    draw = np.random.default_rng(count)
    lost, won = discordant
    held = 0
    for _ in range(2000):
        outcome = draw.choice(4, size=count, p=[lost, won, 0.5, 0.5 - lost - won])
        first, second = np.isin(outcome, (0, 2)), np.isin(outcome, (1, 2))
        low, high = share_difference_interval(first, second)
        held += low <= lost - won <= high
    assert held / 2000 >= 0.94


def test_what_is_no_share_is_refused() -> None:
    assert are_shares([0, 1.0])
    assert not are_shares([0.5])
    assert not are_shares([])
    with pytest.raises(OptionError, match="A share is of values that are 0 or 1"):
        share_interval([0.5])
    with pytest.raises(OptionError, match="the same prompts are compared; 2 and 1 values were given"):
        share_difference_interval([0, 1], [1])

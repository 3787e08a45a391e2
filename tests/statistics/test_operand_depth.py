"""When operands are left: by hand, and on maps whose slope is known."""

from __future__ import annotations

import numpy as np
import pytest

from bathyscope.statistics.operand_depth import left_at, operand_trend, operands_left_at


def test_a_token_is_left_where_less_than_a_tenth_of_its_effect_is_found_behind() -> None:
    effects = [
        [1.0, 1.0, 1.0, 0.05, 0.0],
        [1.0, 0.05, 0.2, 0.09, 0.0],  # it comes back
        [0.0, 0.0, 2.0, 0.2, 0.1],
        [1.0, 1.0, 1.0, 1.0, 1.0],  # it is never left
        [1e-8, 0.0, 0.0, 0.0, 0.0],  # it never mattered
        [np.nan] * 5,
        [1.0, 1.0, 1.0, np.nan, 0.0],  # it may be left here, or not yet
        [1.0, np.nan, 0.0, 0.0, 0.0],
    ]
    np.testing.assert_array_equal(left_at(effects), [3, 3, 4, *[np.nan] * 5])


def test_operands_are_read_in_the_order_of_the_steps() -> None:
    effect_PBT = np.zeros((2, 6, 5))
    for token, boundary in enumerate((5, 1, 4, 2, 3)):
        effect_PBT[:, :boundary, token] = 1.0
    found = operands_left_at(effect_PBT, [(1, 3, 4), (2,)])
    np.testing.assert_array_equal(found, [[1, 2, 3], [4, np.nan, np.nan]])


def test_the_slope_is_that_within_problems_and_its_interval_is_by_problems() -> None:
    """Problems that have more steps and are deeper as a whole say nothing on how later inputs are left."""
    draw = np.random.default_rng(0)
    left = np.full((40, 6), np.nan)
    for own, steps in zip(left, draw.integers(2, 7, 40)):
        own[:steps] = 0.5 * np.arange(steps) + 3.0 * steps + draw.normal(0, 0.1, steps)
    found = operand_trend(left)
    assert found.slope == pytest.approx(0.5, abs=0.05)
    assert found.ci_low < 0.5 < found.ci_high
    np.testing.assert_array_equal(operand_trend(left[:, [0]]).slope, np.nan)
    # the same problems again and again are no new ones
    repeated = operand_trend(np.concatenate([left] * 4))
    assert repeated.ci_high - repeated.ci_low < 0.6 * (found.ci_high - found.ci_low)
    # nor are they where they are said to belong together
    together = operand_trend(np.concatenate([left] * 4), cluster=np.tile(np.arange(40), 4))
    assert (together.ci_low, together.ci_high) == pytest.approx((found.ci_low, found.ci_high))
    by_hand = [np.polyfit(np.arange(n), own[:n], 1)[0] for own in left if (n := int(np.isfinite(own).sum())) == 6]
    assert operand_trend(left[np.isfinite(left).sum(1) == 6]).slope == pytest.approx(np.mean(by_hand))


def test_too_few_problems_have_no_slope() -> None:
    found = operand_trend([[1.0, 2.0], [1.0, 2.0]])
    assert np.isnan(found.slope)
    assert "at least 3 clusters" in found.reason

"""Shares of curves that repeat in each loop, or go on over all of them."""

from __future__ import annotations

import numpy as np
import pytest

from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.stages import Curves, loop_shares

LOOPS, PERIOD, FIRST = 3, 4, 1
NO_FIXED = np.empty((0, FIRST + LOOPS * PERIOD + 2))


def curves(inside: np.ndarray, noise: float = 0.0) -> Curves:
    """The same two curves for ten prompts, between steps in front of the loops and behind them."""
    draw = np.random.default_rng(0)
    values = np.full((10, 2, NO_FIXED.shape[1]), 7.0)
    values[:, :, FIRST : FIRST + LOOPS * PERIOD] = inside.reshape(-1)
    return Curves(values + noise * draw.normal(size=values.shape), NO_FIXED)


def shares(of: Curves) -> dict[str, np.ndarray]:
    return loop_shares(of, LOOPS, PERIOD, FIRST, Sampling(200))


def test_stages_that_repeat_go_by_the_place_and_those_spread_over_loops_by_the_loop() -> None:
    place, loop = np.arange(PERIOD)[None] + np.zeros((LOOPS, 1)), np.arange(LOOPS)[:, None] + np.zeros((1, PERIOD))
    repeats, spreads = shares(curves(place)), shares(curves(loop))
    assert repeats["by_place"][0] == pytest.approx(1)
    assert repeats["by_loop"][0] == pytest.approx(0, abs=1e-12)
    assert spreads["by_place"][0] == pytest.approx(0, abs=1e-12)
    assert spreads["by_loop"][0] == pytest.approx(1)
    # the variance of a sum of both is that of each: 15/12 of the places, 8/12 of the loops
    both = shares(curves(place + loop))
    assert both["by_place"][0] == pytest.approx(15 / 23)
    assert both["by_loop"][0] == pytest.approx(8 / 23)


def test_chance_is_the_mean_of_steps_in_random_order() -> None:
    draw = np.random.default_rng(1)
    tried = [shares(curves(draw.normal(size=(LOOPS, PERIOD)))) for _ in range(200)]
    for name in ("by_place", "by_loop"):
        assert np.mean([values[name][0] for values in tried]) == pytest.approx(tried[0][name][3], abs=0.03)


def test_intervals_hold_the_share_and_widen_with_the_prompts_differences() -> None:
    place = np.arange(PERIOD)[None] + np.zeros((LOOPS, 1))
    narrow, wide = shares(curves(place, 0.1))["by_place"], shares(curves(place, 2.0))["by_place"]
    assert narrow[2] - narrow[1] < wide[2] - wide[1]

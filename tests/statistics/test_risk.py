"""Bounds on a mean loss: wrong ones pass no more often than allowed, and clear ones do."""

from __future__ import annotations

import numpy as np
import pytest

from bathyscope.statistics.risk import betting_p_value, fewest_prompts, passing


@pytest.mark.parametrize("bound", [0.05, 0.3])
@pytest.mark.parametrize("kind", ["all or nothing", "shares"])
def test_a_loss_at_the_bound_passes_rarely(bound: float, kind: str) -> None:
    rng, runs = np.random.default_rng(0), 600
    drawn = rng.random((runs, 80)) < bound if kind == "all or nothing" else rng.beta(bound, 1 - bound, (runs, 80))
    rejected = sum(betting_p_value(own, bound) <= 0.1 for own in drawn)
    # 0.1 plus three standard errors
    assert rejected / runs <= 0.1 + 3 * np.sqrt(0.09 / runs)


def test_bets_multiply() -> None:
    """Money after each prompt by the definition: the stake is fixed before the loss is seen."""
    rng = np.random.default_rng(3)
    losses, bound = rng.random(30) * 0.2, 0.15
    money, most = 1.0, 1.0
    for number in range(len(losses)):
        seen = np.array([bound, *losses[:number]])
        means = np.cumsum(seen) / np.arange(1, number + 2)
        # Welford's sum of squares, begun with a quarter for the bound itself
        spread = (0.25 + sum((seen[i] - means[i - 1]) * (seen[i] - means[i]) for i in range(1, number + 1))) / (
            number + 1
        )
        gap = bound - means[-1]
        stake = min(max(gap / (spread + gap**2), 0), 0.9 / (1 - bound)) if number else 0.0
        money *= 1 - stake * (losses[number] - bound)
        most = max(most, money)
    assert betting_p_value(losses, bound) == pytest.approx(1 / most)
    assert betting_p_value(losses, bound) < 0.9


def test_the_sequence_ends_at_the_first_that_does_not_pass() -> None:
    good, bad = np.zeros(100), np.full(100, 0.4)
    assert passing([good, good, bad, good], 0.1, 0.05) == 2
    assert passing([bad, good], 0.1, 0.05) == 0
    assert passing([good, good], 0.1, 0.05) == 2
    assert passing(np.full((1, 300), 0.02), 0.05, 0.05) == 1


def test_the_fewest_prompts_are() -> None:
    for bound, error in ((0.05, 0.05), (0.2, 0.1)):
        number = fewest_prompts(bound, error)
        assert betting_p_value(np.zeros(number), bound) <= error < betting_p_value(np.zeros(number - 1), bound)
        # no test could do with fewer
        assert number >= np.log(error) / np.log(1 - bound)
    assert fewest_prompts(0.05, 0.05) == 68

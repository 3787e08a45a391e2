"""The interval of a quantile of pooled tokens, where few prompts show little of how uncertain it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kept import half_by_hand

from bathyscope.runs.kept import KeptReading
from bathyscope.statistics.kept_depth import kept_from


def reading_of(shares: np.ndarray, tokens: np.ndarray, cluster: np.ndarray | None = None) -> KeptReading:
    by_prompt = kept_from(shares, 0.5)
    n_blocks = shares.shape[1] - 1
    return KeptReading("half", by_prompt, n_blocks, cluster=cluster, shares=shares, tokens=tokens, quantile=0.5)


def population(concentration: float, n_blocks: int, tokens: int) -> np.ndarray:
    """Shares of 2,000 prompts whose tokens settle at depths of their own; the larger the number, the more alike."""
    rng = np.random.default_rng([n_blocks, tokens])
    depths = rng.dirichlet(concentration * rng.dirichlet(np.ones(n_blocks + 1)) + 1e-3, size=2000)
    counts = np.stack([rng.multinomial(tokens, depth) for depth in depths])
    return np.cumsum(counts, axis=1) / tokens


@pytest.mark.parametrize("tokens", [4, 12])
@pytest.mark.parametrize("prompts", [2, 3, 5])
def test_few_prompts_have_an_interval_that_holds(prompts: int, tokens: int) -> None:
    for concentration, n_blocks in ((1000.0, 6), (8.0, 4)):
        shares = population(concentration, n_blocks, tokens)
        true = float(kept_from(shares.mean(axis=0), 0.5))
        rng = np.random.default_rng(prompts)
        held = 0
        for _ in range(60):
            drawn = shares[rng.choice(len(shares), prompts, replace=False)]
            low, high = reading_of(drawn, np.full(prompts, float(tokens))).interval
            assert high - low > 1e-3
            held += low - 1e-9 <= true <= high + 1e-9
        assert held / 60 >= 0.93


@settings(max_examples=40, deadline=None)
@given(
    depths=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=9),
    clustered=st.booleans(),
)
def test_the_interval_holds_the_reading_and_stays_in_the_model(depths: list[list[int]], clustered: bool) -> None:
    """Ties, prompts of one token, one prompt, copies, and clusters."""
    shares = np.array([[np.mean([depth <= b for depth in prompt]) for b in range(5)] for prompt in depths])
    tokens = np.array([float(len(prompt)) for prompt in depths])
    cluster = np.arange(len(depths)) // 2 if clustered else None
    reading = reading_of(shares, tokens, cluster)
    units = len(depths) if cluster is None else int(cluster.max()) + 1
    low, high = reading.interval
    assert math.isnan(low) == math.isnan(high) == (units < 2)
    if units < 2:
        return
    assert 0 <= low <= high <= 4
    assert low - 1e-9 <= half_by_hand(shares, tokens.tolist(), 0.5) <= high + 1e-9
    if units < 8:
        # six tokens that are all final at boundary 0 show by themselves that most are
        assert high > low or (high == 0 and tokens.sum() >= 6)

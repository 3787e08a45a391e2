"""From which boundary on a share of tokens keeps its prediction, against counting the tokens one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kept import half_by_hand

from bathyscope.statistics.kept_depth import kept_from, kept_reading


@st.composite
def depths(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Prediction depths of the tokens of some prompts, and L: ties, one prompt, all at 0 or at L, L = 1."""
    n_blocks = draw(st.sampled_from([1, 2, 3, 6]))
    token = st.integers(0, n_blocks) | st.sampled_from([0, n_blocks])
    return draw(st.lists(st.lists(token, min_size=1, max_size=6), min_size=1, max_size=4)), n_blocks


def shares_of(prompts: list[list[int]], n_blocks: int) -> np.ndarray:
    return np.array([[np.mean([d <= b for d in tokens]) for b in range(n_blocks + 1)] for tokens in prompts])


@settings(max_examples=150, deadline=None)
@given(depths(), st.sampled_from([0.5, 0.9]))
def test_the_quantile_is_that_of_all_tokens(case: tuple[list[list[int]], int], quantile: float) -> None:
    prompts, n_blocks = case
    shares, counts = shares_of(prompts, n_blocks), [len(tokens) for tokens in prompts]
    value = float(kept_reading(shares, counts, quantile).estimate())
    assert value == pytest.approx(half_by_hand(shares, counts, quantile), abs=1e-9)
    # the first whole boundary at which enough tokens are kept, counted without any mean
    pooled = sorted(depth for tokens in prompts for depth in tokens)
    first = next(b for b in range(n_blocks + 1) if sum(d <= b for d in pooled) >= quantile * len(pooled) - 1e-9)
    assert np.ceil(value - 1e-9) == first
    assert 0 <= value <= n_blocks
    # every token twice, and every prompt twice, change nothing
    twice = [tokens * 2 for tokens in prompts] * 2
    again = kept_reading(shares_of(twice, n_blocks), [len(tokens) for tokens in twice], quantile).estimate()
    assert float(again) == pytest.approx(value)


def test_where_all_tokens_settle_in_one_block_half_of_them_do_so_half_way_through_it() -> None:
    np.testing.assert_allclose(kept_from([[0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]], 0.5), [1.5, 2.5, 0])
    np.testing.assert_allclose(kept_from([0, 0, 1, 1], 0.9), 1.9)


def test_a_share_that_is_not_known_has_no_place_and_its_prompt_no_weight() -> None:
    assert np.isnan(kept_from([np.nan, 0.2, 1.0], 0.5))
    reading = kept_reading([[np.nan] * 3, [0, 0.5, 1]], [0, 7], 0.5)
    assert float(reading.take(reading.has_value).estimate()) == 1.0


def test_of_some_boundaries_the_first_that_reaches_it_counts_and_neighbours_are_read_by_proportion() -> None:
    share = [0.0, 0.2, 0.4, 0.8, 1.0]
    boundaries = (0, 2, 3, 7, 8)
    read = [float(kept_from(share, quantile, boundaries)) for quantile in (0.1, 0.3, 0.5, 0.9)]
    # 2 and 7 come behind boundaries that are not known, where the share may have risen; 3 and 8 behind neighbours
    assert read == pytest.approx([2, 2.5, 7, 7.5])
    assert float(kept_from([0.6, 0.7, 1.0], 0.5, (2, 3, 4))) == 2
    assert kept_from(share, 0.3) == kept_from(share, 0.3, range(5))
    assert kept_reading([share], [5], 0.5, boundaries=boundaries).limits == (0.0, 8.0)

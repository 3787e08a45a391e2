"""When a token's prediction is made: against loops over boundaries, and edge cases."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.measures.settling import at_boundaries, at_boundary, is_deep, prediction_depth, settle_depth

# values on both sides of half a bit and exactly on it
TOKENS = st.integers(2, 7).flatmap(
    lambda n: st.lists(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.50001, 1.0]), min_size=n, max_size=n), min_size=1)
)


@given(TOKENS)
def test_settle_depth_is_where_the_running_minimum_reaches_half_a_bit(tokens: list[list[float]]) -> None:
    jsd = torch.tensor([[*token, 0.0] for token in tokens], dtype=torch.float64).T
    expected = [min(b for b in range(len(jsd)) if jsd[: b + 1, n].min() <= 0.5) for n in range(len(tokens))]
    assert settle_depth(jsd).tolist() == expected


@given(TOKENS)
def test_prediction_depth_is_where_the_last_other_token_is_left(tokens: list[list[float]]) -> None:
    agreement = torch.tensor([[float(value <= 0.5) for value in token] for token in tokens]).T
    last = len(agreement) - 1
    expected = [
        min(b for b in range(last + 1) if all(agreement[later, n] == 1 for later in range(b, last)))
        for n in range(len(tokens))
    ]
    assert prediction_depth(agreement).tolist() == expected


def test_a_token_may_settle_early_and_still_change_its_first_choice() -> None:
    jsd = torch.tensor([[0.9], [0.4], [0.8], [0.1], [0.0]])
    agreement = torch.tensor([[0.0], [1.0], [0.0], [1.0], [1.0]])
    assert settle_depth(jsd).tolist() == [1]
    assert prediction_depth(agreement).tolist() == [3]


def test_a_prediction_that_is_not_finite_has_no_settle_depth() -> None:
    jsd = torch.tensor([[math.nan, 0.2], [math.nan, 0.1]])
    settle = settle_depth(jsd)
    assert settle.isnan().tolist() == [True, False]
    assert is_deep(settle, 1).isnan().tolist() == [True, False]


@pytest.mark.parametrize(("n_blocks", "first"), [(1, 1), (5, 5), (12, 11), (20, 17), (28, 24), (40, 34), (100, 85)])
def test_deep_begins_at_85_percent_of_the_blocks_rounded_up(n_blocks: int, first: int) -> None:
    settle = torch.arange(n_blocks + 1).double()
    assert is_deep(settle, n_blocks).tolist() == [float(b >= first) for b in range(n_blocks + 1)]


def test_depths_of_some_boundaries_are_their_addresses() -> None:
    places = torch.tensor([0.0, 2.0, torch.nan, 1.0], dtype=torch.float64)
    depths = at_boundaries(places, (2, 5, 9))
    assert depths.isnan().tolist() == [False, False, True, False]
    assert depths[[0, 1, 3]].tolist() == [2, 9, 5]
    assert at_boundaries(places, (0, 1, 2)) is places


def test_a_place_between_boundaries_is_a_depth_between_them() -> None:
    assert [at_boundary(place, (2, 5, 9)) for place in (0.0, 0.5, 1.0, 1.25, 2.0)] == [2, 3.5, 5, 6, 9]
    assert math.isnan(at_boundary(math.nan, (2, 5, 9)))
    assert at_boundary(0.3, (0, 1, 2)) == 0.3

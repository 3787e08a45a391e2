"""Tokens of two planted depths: where they settle, by a forward of its own, and what a median and a mean make of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope import Model, Prompt, Run, load, survey
from studies.planted import Cell, prompts
from studies.planted import Verdict as Judged
from studies.planted.chain import next_symbol
from studies.planted.mixture import BLOCKS, LATE_BLOCK, LATE_TOKENS, MIXTURE, SEED, SHIFT, STEPS, build, mixed_prompts
from studies.planted.reading import verdict as judged
from studies.planted.surveyed import PROMPTS
from studies.planted.wiring import SYMBOLS, VOCABULARY, Planted

EARLY_DEPTH, LATE_DEPTH = STEPS, LATE_BLOCK + 1


@pytest.fixture(scope="module")
def model() -> Model:
    return load(build())


@pytest.fixture(scope="module")
def lens(model: Model) -> Run:
    """Of as many prompts as the table is made of."""
    return survey(model, mixed_prompts(PROMPTS), "lens", progress=False)


def planted_depths(ids: Sequence[int]) -> list[int]:
    return [LATE_DEPTH if token in LATE_TOKENS else EARLY_DEPTH for token in ids]


def symbols_by_boundary(ids: Sequence[int]) -> list[list[int]]:
    """The same work done on symbols, [L + 1][T]."""
    symbols = [token % SYMBOLS for token in ids]
    boundaries = [symbols]
    for block in range(BLOCKS):
        if block < STEPS:
            function = next_symbol(SEED, block).tolist()
            symbols = [function[x][y] for x, y in zip(symbols, [symbols[0], *symbols[:-1]])]
        elif block == LATE_BLOCK:
            symbols = [(x + SHIFT) % SYMBOLS if v in LATE_TOKENS else x for x, v in zip(symbols, ids)]
        boundaries.append(symbols)
    return boundaries


@torch.no_grad()
def states_of(planted: Planted, prompts_P: Sequence[Prompt]) -> list[torch.Tensor]:
    """h_0 … h_(L−1) of prompts of one length by the library's own forward, and h_L behind the final norm, [P, T, D]."""
    ids_PT = torch.tensor([prompt.ids for prompt in prompts_P])
    return list(planted(input_ids=ids_PT, output_hidden_states=True).hidden_states)


@torch.no_grad()
def top1_by_boundary(planted: Planted, prompts_P: Sequence[Prompt]) -> np.ndarray:
    """The most probable token of every position at every boundary, [P, L + 1, T]."""
    *states, last = states_of(planted, prompts_P)
    normed = [*(planted.model.norm(state) for state in states), last]
    return torch.stack([planted.lm_head(state).argmax(-1) for state in normed], dim=1).numpy()


def settled_at(top1: np.ndarray) -> list[int]:
    """For each token the first boundary from which on its most probable token is the final one, of [L + 1, T]."""
    return [max((b + 1 for b in range(BLOCKS) if column[b] != column[-1]), default=0) for column in top1.T]


def test_every_token_settles_where_it_was_planted_by_the_librarys_own_forward() -> None:
    planted = build()
    # of random tokens the shares are not fixed, and where each settles is
    for drawn_prompts in (mixed_prompts(40), prompts(count=40)):
        for prompt, top1 in zip(drawn_prompts, top1_by_boundary(planted, drawn_prompts), strict=True):
            assert (top1 % SYMBOLS).tolist() == symbols_by_boundary(prompt.ids)
            assert settled_at(top1) == planted_depths(prompt.ids)


def test_the_late_block_adds_exactly_nothing_at_early_tokens_and_idle_ones_add_nothing_at_all() -> None:
    planted, mixed = build(), mixed_prompts(3)
    *states, last = states_of(planted, mixed)
    is_late = torch.tensor([[token in LATE_TOKENS for token in prompt.ids] for prompt in mixed])
    for block, (before, behind) in enumerate(pairwise(states)):
        wanted = is_late if block == LATE_BLOCK else torch.full_like(is_late, block < STEPS)
        assert torch.equal((behind != before).any(-1), wanted), block
    assert torch.equal(last, planted.model.norm(states[-1]))


def test_the_truth_states_the_shares_of_every_prompt() -> None:
    assert MIXTURE.truth.settling == ((2, 0.4), (10, 0.6))
    mixed = mixed_prompts(40)
    for top1 in top1_by_boundary(build(), mixed):
        counts = Counter(settled_at(top1))
        assert (
            tuple((depth, count / top1.shape[1]) for depth, count in sorted(counts.items())) == MIXTURE.truth.settling
        )


def test_half_and_mean_of_the_truth() -> None:
    # on the line from 0.4 at boundary 9 to 1 at boundary 10
    assert MIXTURE.truth.depth_of(0.5) == pytest.approx(9 + 1 / 6)
    assert MIXTURE.truth.depth_of(0.9) == pytest.approx(9 + 5 / 6)
    assert MIXTURE.truth.mean_depth == pytest.approx(6.8)
    alike = replace(MIXTURE.truth, settling=())
    assert [alike.depth_of(0.5), alike.depth_of(0.9), alike.mean_depth] == pytest.approx([9.5, 9.9, 10])


@given(counts=st.dictionaries(st.integers(0, 12), st.integers(1, 9), min_size=1), quantile=st.integers(1, 20))
def test_depths_of_shares_are_places_on_the_curve_of_settled_tokens(counts: dict[int, int], quantile: int) -> None:
    depths = np.repeat(sorted(counts), [counts[depth] for depth in sorted(counts)])
    settling = tuple((depth, counts[depth] / len(depths)) for depth in sorted(counts))
    truth = replace(MIXTURE.truth, settling=settling)
    curve = [(depths <= boundary).mean() for boundary in range(13)]
    # on the line to the first boundary with that share of the tokens, from the one before
    first = next(boundary for boundary, share in enumerate(curve) if share >= quantile / 20 - 1e-9)
    place = first - (curve[first] - quantile / 20) / (curve[first] - curve[first - 1]) if first else 0.0
    assert truth.depth_of(quantile / 20) == pytest.approx(place, abs=1e-6)
    assert truth.mean_depth == pytest.approx(depths.mean())


def test_the_head_is_the_half_depth_and_the_mean_lies_where_no_token_settles(lens: Run) -> None:
    verdict = lens.verdict
    assert verdict.half.value == pytest.approx(MIXTURE.truth.depth_of(0.5))
    assert verdict.tokens_90.value == pytest.approx(MIXTURE.truth.depth_of(0.9))
    assert verdict.readable.value == pytest.approx(MIXTURE.truth.mean_depth)
    assert verdict.head.tokens is verdict.half
    assert verdict.text.startswith("Half of the tokens keep their final prediction from 9.2 (")
    assert verdict.half.low <= MIXTURE.truth.depth_of(0.5) <= verdict.half.high
    # more than two blocks apart, and no token settles at the boundaries on both sides of the mean
    assert verdict.half.value - verdict.readable.value > 2
    share_by_boundary = lens["lens"]["top1_kept"].mean("prompt").values
    assert share_by_boundary == pytest.approx([0, 0, *[0.4] * 8, 1, 1, 1])
    assert verdict.head.boundary == LATE_DEPTH


def test_a_run_that_does_not_store_which_tokens_are_kept_is_headed_by_the_mean(lens: Run) -> None:
    old = lens["lens"].drop_vars(["top1_kept"])
    verdict = replace(lens, tree=xr.DataTree.from_dict({"/lens": old})).verdict
    assert verdict.head.is_mean
    assert verdict.head.tokens.value == pytest.approx(MIXTURE.truth.mean_depth)
    assert verdict.head.boundary is None
    assert "Half of the tokens keep" not in verdict.text
    assert "from 6.8 (2.0 to 10.5) of 12 blocks on, on average" in verdict.text


PROMPT = st.lists(st.integers(0, VOCABULARY - 1), min_size=2, max_size=12)


@settings(max_examples=12, deadline=None)
@given(tokens=st.lists(PROMPT, min_size=1, max_size=4, unique_by=tuple))
def test_readings_of_any_prompts_follow_from_their_tokens(model: Model, tokens: list[list[int]]) -> None:
    run = survey(model, [Prompt(ids=ids) for ids in tokens], "lens", progress=False)
    depths = [planted_depths(ids) for ids in tokens]
    pooled = Counter(depth for of_prompt in depths for depth in of_prompt)
    settling = tuple((depth, count / pooled.total()) for depth, count in sorted(pooled.items()))
    truth = replace(MIXTURE.truth, settling=settling)
    # the half pools tokens of all prompts; the mean counts every prompt the same
    assert run.verdict.half.value == pytest.approx(truth.depth_of(0.5))
    assert run.verdict.tokens_90.value == pytest.approx(truth.depth_of(0.9))
    assert run.verdict.readable.value == pytest.approx(np.mean([np.mean(of_prompt) for of_prompt in depths]))


@pytest.mark.thorough
def test_the_table_sees_a_mean_that_is_taken_for_a_median(cells_of: Callable[[str], dict[str, Cell]]) -> None:
    cells = cells_of("mixture")
    for name in ("verdict_half", "verdict_tokens_90"):
        assert cells[name].verdict is Judged.RIGHT
        assert cells[name].said == pytest.approx(cells[name].true)
    for name in ("verdict_readable", "prediction", "settle", "frozen_prediction", "frozen_settle"):
        assert cells[name].verdict is Judged.FOOLED
        assert cells[name].said == pytest.approx(MIXTURE.truth.mean_depth)
        # whether it was read as the depth of half of the tokens or of all
        for true in (MIXTURE.truth.depth_of(0.5), MIXTURE.truth.depth):
            assert judged(cells[name].said, float(true)) is Judged.FOOLED

"""What the sentences claim is what the arrays say: generated cases of all sizes, with ties, gaps and single prompts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import zoo

import bathyscope
from bathyscope.analysis.between.diff_text import conclude, fields, first_beyond, mismatched, tabulate, unscored
from bathyscope.analysis.between.parting import TokenPredictions, difference
from bathyscope.analysis.between.weights import WeightComparison
from bathyscope.pages.figures.of.diff import drawing
from bathyscope.statistics.sampling import Sampling

_SIZES = st.sampled_from([0.0, 1e-9, 1e-7, 1e-6, 1e-3, 0.02, 0.02, 0.5])
_CHANGES = st.sampled_from([0.0, 1e-6, 0.01, 0.01, 0.2, 0.99, np.nan])


@st.composite
def results(draw: Any) -> Any:
    prompts, blocks = draw(st.integers(1, 4)), draw(st.integers(1, 5))

    def sizes(*shape: int) -> Any:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(_SIZES, min_size=count, max_size=count))).reshape(shape)

    values = {name: sizes(prompts, blocks) for name in ("graft", "graft_back", "cumulative", "cumulative_back")}
    values |= {"drift": sizes(prompts, blocks + 1), "output": sizes(prompts)}
    values |= {"noise_floor": sizes(prompts, blocks + 1), "output_floor": sizes(prompts)}
    values["part_drift"] = np.full((prompts, blocks, 2), np.nan)
    changes = np.array(draw(st.lists(_CHANGES, min_size=blocks, max_size=blocks)))
    every = [f"block {block}{part}" for block in range(blocks) for part in ("", ", attention", ", mlp")]
    places = draw(st.none() | st.lists(st.sampled_from(["embedding", "final norm", *every]), unique=True))
    kinds = draw(st.lists(st.sampled_from(["configuration", "constants", "precision"]), unique=True))
    weights = WeightComparison(changes, [True] * blocks, places, kinds)
    words = np.full((prompts, 3), "a")
    kl_PT = sizes(prompts, 3)
    # of unequal lengths; the last token of each is not scored
    for row in range(prompts):
        kl_PT[row, draw(st.integers(1, 3)) :] = np.nan
    tokens = TokenPredictions(np.zeros((prompts, blocks + 1, 3)), kl_PT, words, words, words)
    names = [f"p{row}" for row in range(prompts)]
    return difference(values, tokens, weights, names, ("A", "B"), ("llama", "llama"), Sampling(20, 0.95, 0))


@pytest.mark.parametrize(
    ("effect", "small"), [(0.2, False), (0.15, False), (0.101, False), (0.099, True), (0.01, True)]
)
def test_an_effect_is_small_from_half_of_the_median_on(effect: float, small: bool) -> None:
    """Of three changed blocks the last changes five times as much as the others."""
    graft = np.array([[0.2, 0.2, effect]])
    drift, floor = np.full((1, 4), 0.5), np.full((1, 4), 1e-9)
    values = dict.fromkeys(("graft", "graft_back", "cumulative", "cumulative_back"), graft)
    values |= {"drift": drift, "noise_floor": floor, "output": np.full(1, 0.5), "output_floor": np.full(1, 1e-9)}
    values["part_drift"] = np.full((1, 3, 2), np.nan)
    weights = WeightComparison(np.array([0.01, 0.01, 0.05]), [True] * 3, None, [])
    words = np.full((1, 3), "a")
    tokens = TokenPredictions(np.zeros((1, 4, 3)), np.array([[0.5, 0.5, np.nan]]), words, words, words)
    result = difference(values, tokens, weights, ["p0"], ("A", "B"), ("llama", "llama"), Sampling(20, 0.95, 0))
    assert mismatched(result.data) == ([2] if small else [], [])


@settings(max_examples=150, deadline=None)
@given(results())
def test_the_place_is_the_first_at_which_any_prompt_is_above_its_own_rounding(result: Any) -> None:
    above = [
        (boundary, prompt)
        for boundary in range(result.sizes["boundary"])
        for prompt in range(result.sizes["prompt"])
        if result["drift"].values[prompt, boundary] > result["noise_floor"].values[prompt, boundary]
    ]
    outputs_part = any(
        output > floor for output, floor in zip(result["output"].values, result["output_floor"].values, strict=True)
    )
    record, text, alt = result.record(), result.text, drawing(result.data).panels[0].alt
    assert record["first"] == result.first == first_beyond(result.data)
    if not above:
        assert result.first is None
        assert (" are equal up to rounding" in text) == (not outputs_part)
        assert ("do not part beyond rounding" in text) == outputs_part
        assert "within rounding" in alt
    elif above[0][0] == 0:
        assert result.first == 0
        assert text.startswith("The streams part before block 0, in the embedding")
        assert record["embedding"]
        assert "in front of block 0" in alt
    else:
        assert result.first == above[0][0] - 1
        assert text.startswith(f"The streams part at block {result.first}")
        assert f"behind block {result.first}." in alt
    assert tabulate(result.data)["beyond"].tolist() == [
        sum(boundary == block + 1 for boundary, _ in above) for block in range(result.sizes["block"])
    ]
    assert "no difference" not in text.lower()


@settings(max_examples=150, deadline=None)
@given(results())
def test_the_largest_grafts_are_all_blocks_that_share_the_maximum(result: Any) -> None:
    if result.first is None:
        return
    graft = result["graft_mean"].values
    is_above = (result["graft"].values > result["output_floor"].values[:, None]).any()
    named = re.search(r"The largest single grafts? (?:is|are) blocks? ([\d, and]+) \(", result.text)
    if not graft.any():
        changes = result["weight_change"].values
        differ = bool((np.isnan(changes) | (changes > 0)).any() or result.data.attrs["settings_differ"])
        assert ("No block differs by itself" in result.text) != differ
        assert ("No single graft changes a prediction that is scored" in result.text) == differ
    elif not is_above:
        assert "No single graft is distinguishable from rounding" in result.text
    else:
        assert named is not None
        assert [int(block) for block in re.findall(r"\d+", named[1])] == np.flatnonzero(graft == graft.max()).tolist()
        assert f"{graft.max():.4g} nats a token" in result.text


@settings(max_examples=200, deadline=None)
@given(results())
def test_what_differs_at_last_tokens_alone_is_no_small_effect(result: Any) -> None:
    floors = result["output_floor"].values
    lasts = [kl[np.isfinite(kl)][-1] for kl in result["token_kl"].values]
    beyond = [last for last, floor in zip(lasts, floors) if last > floor]
    is_alone = bool(beyond) and not (result["output"].values > floors).any()
    if is_alone:
        assert mismatched(result.data) == ([], [])
        assert "small effect" not in result.text
    is_told = "Only predictions at last tokens, which are not scored, differ" in result.text
    assert is_told <= is_alone
    if is_told:
        assert f"(by up to {max(beyond):.4g} nats)" in result.text
    grafts_say_nothing = not (result["graft"].values > floors[:, None]).any()
    if is_alone and result.first is not None and grafts_say_nothing:
        assert is_told


@settings(max_examples=150, deadline=None)
@given(results())
def test_an_interval_of_a_length_does_not_go_below_0(result: Any) -> None:
    low, mean = result["drift_low"].values, result["drift_mean"].values
    assert not (low < 0).any()
    assert not (low > mean).any()


def test_two_tokens_show_no_small_effect_of_attention() -> None:
    """The first token is scored alone and attends to itself alone, whatever its queries are."""
    model, other = zoo.entry("llama").build(), zoo.entry("llama").build()
    with torch.no_grad():
        other.model.layers[0].self_attn.q_proj.weight.mul_(5.0)
    parted = bathyscope.diff(model, other, [[5, 6], [6, 5]], resamples=100)
    assert parted.first == 0
    assert "No block differs" not in parted.text
    assert "small effect" not in parted.text
    assert "No single graft changes a prediction that is scored (all blocks together 0, " in parted.text
    largest = float(parted["token_kl"].values[:, -1].max())
    assert (
        f"Only predictions at last tokens, which are not scored, differ (by up to {largest:.4g} nats)." in parted.text
    )


@settings(max_examples=150, deadline=None)
@given(results())
def test_a_block_is_named_for_its_change_only_with_a_margin(result: Any) -> None:
    quiet, loud = mismatched(result.data)
    if unscored(result.data):
        assert not quiet
        assert not loud
        return
    change, graft = result["weight_change"].values, result["graft_mean"].values
    changed = np.flatnonzero(change > 0)
    beyond = (result["graft"].values > result["output_floor"].values[:, None]).any(0)
    assert not {*quiet} & {*loud}
    for block in quiet:
        others_are_less = (
            change[block] >= 2 * np.median(change[changed]) and graft[block] <= np.median(graft[changed]) / 2
        )
        assert others_are_less or (
            change[block] >= 0.1 and (not beyond[block] or graft[block] <= 1e-4 * change[block] ** 2)
        )
    for block in loud:
        assert 0 < change[block] <= np.median(change[changed]) / 2
        assert beyond[block]
        assert graft[block] >= 2 * np.median(graft[changed])
    for block in changed:
        if change[block] >= 0.1 and not beyond[block]:
            assert block in quiet
    if result.first is not None:
        for block in (*quiet, *loud):
            assert f"block {block} (weights by {change[block]:.2%}, {graft[block]:.2g} nats a token" in result.text
    record = fields(result.data, result.first)
    assert (record["large_change_small_effect"], record["small_change_large_effect"]) == (quiet, loud)


@settings(max_examples=100, deadline=None)
@given(results())
def test_weights_are_said_to_differ_only_where_that_is_known(result: Any) -> None:
    places = result.attrs.get("weights_differ")
    words = {f"block {block}" for block in range(result.sizes["block"])} | {"the embedding", "the final norm"}
    sentence = result.text.partition(". ")[0]
    if places is None:
        assert "weights" not in sentence
    elif not places:
        assert "all weights are equal" in sentence
        assert all(f"the {name}" in sentence for name in result.attrs["settings_differ"])
    elif len(places) <= 4:
        assert "the weights of " in sentence
        clause = sentence.partition("the weights of ")[2]
        for word in words:
            is_named = re.search(rf"{word}\b", clause) is not None
            assert is_named == any(re.match(rf"(the )?{word.removeprefix('the ')}\b", place) for place in places)


def test_order_of_prompts_does_not_matter() -> None:
    """One prompt above its own bound is enough, wherever it stands, and however many others there are."""
    base = np.full((40, 4), 1e-7)
    for row in (0, 17, 39):
        drift = base.copy()
        drift[row, 2:] = 1e-3
        data = xr.Dataset(
            {"drift": (("prompt", "boundary"), drift), "noise_floor": (("prompt", "boundary"), np.full((40, 4), 1e-6))}
        )
        assert first_beyond(data) == 1


def test_intervals_over_prompts_decide_nothing() -> None:
    """With two prompts an interval may reach below zero; each is above its own rounding."""
    weights = WeightComparison(np.array([0.1]), [True], ["block 0, mlp"], [])
    zeros, words = np.zeros((2, 1)), np.full((2, 3), "a")
    values = dict.fromkeys(("graft", "graft_back", "cumulative", "cumulative_back"), zeros)
    values |= {"drift": np.array([[0.0, 1e-5], [0.0, 0.1]]), "noise_floor": np.full((2, 2), 1e-6)}
    values |= {"output": np.zeros(2), "output_floor": np.zeros(2), "part_drift": np.full((2, 1, 2), np.nan)}
    tokens = TokenPredictions(np.zeros((2, 2, 3)), np.zeros((2, 3)), words, words, words)
    result = difference(values, tokens, weights, ["p", "q"], ("A", "B"), ("llama",) * 2, Sampling(20, 0.95, 0))
    assert result["drift_low"].values[1] < 1e-6
    assert result.first == 0
    assert conclude(result.data, result.first).startswith("The streams part at block 0; the weights of block 0's MLP ")

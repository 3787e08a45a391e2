from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest

from bathyscope.statistics.depth_score import depth_score
from bathyscope.statistics.sampling import Sampling

BLOCKS = 8
SHAPE = np.exp(-(((np.arange(BLOCKS) - 2.5) / 2) ** 2))


def draw(n_prompts: int, seed: int) -> np.ndarray:
    """Output effects of prompts that differ in size and, block by block, in shape."""
    rng = np.random.default_rng(seed)
    return SHAPE * rng.lognormal(sigma=0.5, size=(n_prompts, 1)) * rng.lognormal(sigma=0.5, size=(n_prompts, BLOCKS))


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("reduction", ["mean", "p95", "max"])
def test_one_block_with_an_effect_is_the_score(block: int, reduction: str) -> None:
    effect = np.zeros((5, BLOCKS))
    effect[:, block] = np.arange(1, 6)
    found = depth_score(effect, reduction, Sampling(20))
    assert (found.score, found.ci_low, found.ci_high) == pytest.approx((block, block, block), abs=1e-12)
    assert found.reason == ""


@pytest.mark.parametrize(("reduction", "over"), [("mean", np.mean), ("max", np.max)])
def test_effects_are_reduced_over_prompts_first(reduction: str, over: object) -> None:
    output = draw(6, 0)
    reduced = over(output, axis=0)
    assert depth_score(output, reduction).score == pytest.approx(reduced @ np.arange(BLOCKS) / reduced.sum())
    layers = np.random.default_rng(1).random((6, BLOCKS, BLOCKS))
    reduced = over(layers, axis=0).sum(axis=1) / np.array([7, 6, 5, 4, 3, 2, 1, 1])
    assert depth_score(layers, reduction).score == pytest.approx(reduced @ np.arange(BLOCKS) / reduced.sum())


def test_the_95th_percentile_is_linear() -> None:
    effect = np.zeros((21, 3))
    effect[:, 0], effect[:, 2] = np.arange(21), 1
    assert depth_score(effect, "p95").score == pytest.approx(2 / (19 + 1))


@pytest.mark.parametrize("n_prompts", [5, 20])
def test_intervals_of_the_mean_hold_the_score_as_often_as_they_say(n_prompts: int) -> None:
    truth = depth_score(draw(20_000, 1), "mean", Sampling(1)).score
    found = [depth_score(draw(n_prompts, seed), "mean", Sampling(200, seed=seed)) for seed in range(200)]
    assert 0.9 <= np.mean([f.ci_low <= truth <= f.ci_high for f in found]) <= 0.995


def test_the_size_of_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = depth_score(draw(9, 2), "p95", Sampling(40))
    monkeypatch.setattr("bathyscope.statistics.depth_score._CHUNK", 200)
    chunked = depth_score(draw(9, 2), "p95", Sampling(40))
    assert astuple(chunked)[:3] == pytest.approx(astuple(whole)[:3], rel=1e-12)


def test_equal_seeds_give_equal_intervals() -> None:
    one, same, other = (depth_score(draw(9, 2), "mean", Sampling(40, seed=seed)) for seed in (3, 3, 4))
    assert one == same
    assert (one.score, one.ci_low) != (other.score, other.ci_low)


def test_prompts_without_an_effect_are_left_out() -> None:
    effect = draw(5, 3)
    gaps = np.concatenate([effect, np.full((2, BLOCKS), np.nan)])
    assert depth_score(gaps, "mean", Sampling(30)) == depth_score(effect, "mean", Sampling(30))


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (np.full((3, BLOCKS), np.nan), "no prompt has an effect"),
        (np.zeros((0, BLOCKS, BLOCKS)), "no prompt has an effect"),
        (np.zeros((3, BLOCKS)), "the effect is zero at every block"),
        (np.ones((1, BLOCKS)), "an interval needs at least two prompts, and there is one"),
    ],
)
def test_reasons(effect: np.ndarray, reason: str) -> None:
    found = depth_score(effect, "max")
    assert found.reason == reason
    assert math.isnan(found.ci_low)
    assert math.isnan(found.ci_high)
    assert math.isnan(found.score) == (reason != "an interval needs at least two prompts, and there is one")

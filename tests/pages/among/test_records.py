"""The models that a run is set among: what papers print, on one scale, and records that can be measured again."""

from __future__ import annotations

import math

import pytest

import bathyscope
from bathyscope.extend import bundled_model
from bathyscope.extend.prompts import bundled_prompts
from bathyscope.pages.among.records import CURVES, HALF, QUANTITIES, measured, published

TRAINED = ("bundled model", "depth_6", "depth_12", "depth_24", "permutations_2", "permutations_8", "permutations_12")
REAL = {"SmolLM2": 30, "Gemma": 18}


def test_what_is_printed_is_on_the_scale_of_a_run() -> None:
    """Cosines index blocks, which are done one further on; KL and overlap index block inputs."""
    shares = {(one.model, one.data, one.quantity): one.share for one in published()}
    assert len(shares) == len(published()) == 108
    model = "Qwen2.5-1.5B-Instruct"
    assert shares[model, "gsm8k", "cosine"] == (20 + 1) / 28
    assert shares[model, "gsm8k", "kl"] == 22 / 28
    assert shares["Qwen2.5-32B", "aime2024", "overlap"] == 60 / 64
    assert {(one.data, one.prompts) for one in published()} == {("hellaswag", 10), ("gsm8k", 10), ("aime2024", 5)}


def test_every_trained_model_has_three_untrained_ones() -> None:
    names = {one.model for one in measured() if one.kind == "trained"}
    assert set(TRAINED) <= names
    assert len(names) == len(TRAINED) + len(REAL)
    for start, blocks in REAL.items():
        (real,) = {
            (one.blocks, one.data) for one in measured() if one.model.startswith(start) and one.kind == "trained"
        }
        assert real == (blocks, "gsm8k:5")
    for name in names:
        shapes = {(one.model, one.blocks, one.data) for one in measured() if one.model.startswith(f"{name}, untrained")}
        assert len(shapes) == 3
        assert len({shape[1:] for shape in shapes}) == 1


def test_records_are_shares_with_intervals_around_them() -> None:
    for one in measured():
        assert one.quantity in QUANTITIES
        if math.isnan(one.share):
            continue
        assert 0 <= one.low <= one.share + 1e-6, one
        assert one.share - 1e-6 <= one.high <= 1, one
    assert all(not math.isnan(one.share) for one in measured() if one.quantity == HALF and one.kind == "trained")


def test_a_record_measured_again_is_the_record() -> None:
    run = bathyscope.survey(str(bundled_model()), str(bundled_prompts()), measures=["residual", "lens"], progress=False)
    again = {one.quantity: one for one in run.among().records if one.kind == "run"}
    stored = {one.quantity: one for one in measured() if one.model == TRAINED[0]}
    # and no other model than itself
    assert TRAINED[0] in {one.model for one in measured()}
    assert TRAINED[0] not in {one.model for one in run.among().records if one.kind != "run"}
    assert set(stored) == {HALF, *CURVES}
    for quantity, one in stored.items():
        assert (again[quantity].prompts, again[quantity].weights) == (one.prompts, one.weights)
        # the record is in bfloat16, which each processor rounds in an order of its own: a near-tie may move a depth
        assert again[quantity].share == pytest.approx(one.share, abs=1 / one.blocks + 1e-6, nan_ok=True)

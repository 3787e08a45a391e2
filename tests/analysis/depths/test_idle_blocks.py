"""Trained models against themselves with idle blocks: what every estimator must give is known beforehand.

A model of L blocks is doubled by blocks that add nothing. Put *behind all* others, they leave every boundary where
it was: depths stay, and ratios halve. Put *after each* block, they stretch the model: boundary b is found at 2b − 1
and 2b, so that depths double and ratios stay within a block. The tests compute both from the short model's arrays
alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.idle import after_each, behind_all, with_idle_blocks
from transformers import AutoModelForCausalLM, AutoTokenizer

import bathyscope
from bathyscope.analysis.depths import Comparison
from bathyscope.model import load
from bathyscope.model.bundled import model_path, prompts_path
from bathyscope.runs.run import Run

FIRST_CROSSINGS = ("kl", "overlap")
TOKEN_DEPTHS = ("settle", "prediction")
PROMPTS, TOKENS = 3, 20


@dataclasses.dataclass(frozen=True)
class Trio:
    """Runs of a model, of its copy, and of both doublings, on the same prompts."""

    short: Run
    copy: Run
    stretched: Run
    extended: Run

    @property
    def blocks(self) -> int:
        return int(self.short["residual"].sizes["block"])


@pytest.fixture(scope="module", params=["bundled", pytest.param("stories260K", marks=pytest.mark.thorough)])
def trio(request: pytest.FixtureRequest, shared: Callable[[str], Path]) -> Trio:
    if request.param == "bundled":
        folder = model_path()
        texts = [json.loads(line)["text"] for line in prompts_path().read_text(encoding="utf-8").splitlines()]
    else:
        folder = shared("checkpoints/stories260K")
        story = shared("data/text/tinystories_slice.txt").read_text(encoding="utf-8")
        texts = [story[start : start + 400] for start in range(0, 400 * PROMPTS, 400)]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    # lengths differ, since curves are weighted by tokens
    ids = [tokenizer(text)["input_ids"][: TOKENS - 3 * number] for number, text in enumerate(texts[:PROMPTS])]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    blocks = model.config.num_hidden_layers
    made = {
        "short": model,
        "copy": with_idle_blocks(model, list(range(blocks))),
        "stretched": with_idle_blocks(model, after_each(blocks)),
        "extended": with_idle_blocks(model, behind_all(blocks)),
    }
    return Trio(
        **{
            name: bathyscope.survey(dataclasses.replace(load(one), name=name), ids, progress=False)
            for name, one in made.items()
        }
    )


_COMPARED: dict[int, tuple[Run, Comparison]] = {}


def compared(trio: Trio, other: Run) -> Comparison:
    """Made once for each of the runs, which are kept so that none takes another's place."""
    if id(other) not in _COMPARED:
        _COMPARED[id(other)] = other, bathyscope.compare([trio.short, other], resamples=300)
    return _COMPARED[id(other)][1]


def value(found: Comparison, variable: str, estimator: str) -> float:
    return float(found.data[variable].sel(estimator=estimator).item())


def own_low(found: Comparison, estimator: str) -> float:
    """Lower end of the interval of the first run's own ratio."""
    return float(found.runs["ci_low"].isel(run=0).sel(estimator=estimator))


def cosine(run: Run) -> np.ndarray:
    """Token-weighted mean of the three cosines, [blocks]."""
    data = run["residual"]
    mean = (data["cos_attn"] + data["cos_mlp"] + data["cos_block"]) / 3
    return np.average(mean.values, axis=0, weights=data["n_tokens"].values)


def effect(run: Run) -> np.ndarray:
    """Mean effect of skipping each block on the blocks after it, summed over these."""
    future = run["skip"]["effect_future"].sel(part="block", reduction="max")
    return future.mean("prompt").sum("block").values


def test_two_copies_have_differences_of_exactly_zero(trio: Trio) -> None:
    found = compared(trio, trio.copy)
    assert found.data["kind"].item() == "paired"
    there = found.data["difference"].notnull()
    assert there.sum() >= 6
    assert (found.data["difference"].where(there, 0) == 0).all()
    assert (found.data["ci_low"].where(there, -1) <= 0).all()
    assert (found.data["ci_high"].where(there, 1) >= 0).all()


def test_a_contribution_of_zero_has_a_cosine_of_zero(trio: Trio) -> None:
    for run, idle in ((trio.stretched, slice(1, None, 2)), (trio.extended, slice(trio.blocks, None))):
        for part in ("attn", "mlp", "block"):
            assert (run["residual"][f"cos_{part}"].values[:, idle] == 0).all()
            assert (run["residual"][f"ratio_{part}"].values[:, idle] == 0).all()


@pytest.mark.parametrize("name", FIRST_CROSSINGS)
def test_idle_blocks_behind_all_halve_the_ratio_of_a_crossing(trio: Trio, name: str) -> None:
    found = compared(trio, trio.extended)
    for estimator in (name, f"interpolated_{name}"):
        short = value(found, "reference_ratio", estimator)
        assert value(found, "other_ratio", estimator) == pytest.approx(short / 2, abs=1e-6), estimator
        # where the depth may be 0 so may the difference
        assert value(found, "ci_high", estimator) < 0 or own_low(found, estimator) == 0, estimator


@pytest.mark.parametrize("name", TOKEN_DEPTHS)
def test_idle_blocks_behind_all_halve_the_ratio_of_token_depths(trio: Trio, name: str) -> None:
    found = compared(trio, trio.extended)
    assert value(found, "other_ratio", name) == pytest.approx(value(found, "reference_ratio", name) / 2, abs=1e-6)
    assert value(found, "ci_high", name) < 0


def test_idle_blocks_behind_all_move_the_centre_of_mass_by_what_the_definition_says(trio: Trio) -> None:
    # the effects stay, but e_s is the mean over all later blocks, which are more now
    found, blocks, s = compared(trio, trio.extended), trio.blocks, np.arange(trio.blocks)
    e = effect(trio.short) / (2 * blocks - 1 - s)
    assert value(found, "other_ratio", "centre_of_mass") == pytest.approx(
        (s @ e / e.sum() + 0.5) / (2 * blocks), rel=1e-3
    )
    assert value(found, "ci_high", "centre_of_mass") < 0
    assert value(found, "other_ratio", "centre_of_mass") < 0.6 * value(found, "reference_ratio", "centre_of_mass")


def test_idle_blocks_behind_all_leave_the_cosine_where_it_last_was_negative(trio: Trio) -> None:
    found, negative = compared(trio, trio.extended), np.flatnonzero(cosine(trio.short) < 0)
    other = value(found, "other_ratio", "cosine")
    if not negative.size:
        assert np.isnan(other)
    else:
        # zeros follow, which are no longer negative, so that the last negative block counts whatever came after it
        assert other == pytest.approx((negative[-1] + 1) / (2 * trio.blocks))


@pytest.mark.parametrize("name", FIRST_CROSSINGS)
def test_idle_blocks_after_each_move_a_first_crossing_to_twice_less_one(trio: Trio, name: str) -> None:
    found, blocks = compared(trio, trio.stretched), trio.blocks
    whole = value(found, "reference_ratio", name) * blocks
    position = value(found, "reference_ratio", f"interpolated_{name}") * blocks
    assert whole >= 1
    assert value(found, "other_ratio", name) == pytest.approx((2 * whole - 1) / (2 * blocks))
    assert value(found, "difference", name) == pytest.approx(-1 / (2 * blocks))
    # the crossing lies between boundaries b − 1 and b, which are 2b − 2 and 2b − 1 now
    wanted = (position + whole - 1) / (2 * blocks)
    assert value(found, "other_ratio", f"interpolated_{name}") == pytest.approx(wanted, abs=1e-6)
    # its interval holds all positions of the crossing between two boundaries; the earliest of them stays where it was
    assert value(found, "ci_high", name) <= 0
    # wherever in its interval the position lies, it falls behind by at most half a block
    assert -1 / (2 * blocks) <= value(found, "difference", f"interpolated_{name}") <= 0
    # on a boundary it does not fall behind at all: such a tie counts as half, and one of 300 resamples may be one
    assert value(found, "positive_share", f"interpolated_{name}") <= 0.5 / 300


@pytest.mark.parametrize("name", TOKEN_DEPTHS)
def test_idle_blocks_after_each_stretch_token_depths(trio: Trio, name: str) -> None:
    # a token's depth b is found at 2b − 1, and one of 0 stays there: the mean ratio falls by at most ½/L
    found, blocks = compared(trio, trio.stretched), trio.blocks
    assert -1 / (2 * blocks) - 1e-6 <= value(found, "difference", name) <= 0
    # by the same in every prompt, which three of them do not prove of others
    assert value(found, "positive_share", name) == 0
    assert value(found, "ci_low", name) < value(found, "difference", name) < value(found, "ci_high", name)


def test_idle_blocks_after_each_stretch_the_centre_of_mass(trio: Trio) -> None:
    found, blocks, s = compared(trio, trio.stretched), trio.blocks, np.arange(trio.blocks)
    e = effect(trio.short) / (2 * blocks - 1 - 2 * s)
    wanted = (2 * (s @ e) / e.sum() + 0.5) / (2 * blocks)
    assert value(found, "other_ratio", "centre_of_mass") == pytest.approx(wanted, rel=1e-3)
    assert abs(value(found, "difference", "centre_of_mass")) < 1.5 / blocks
    assert value(found, "ci_high", "centre_of_mass") < 0


def test_idle_blocks_after_each_make_every_negative_cosine_a_crossing(trio: Trio) -> None:
    found, negative = compared(trio, trio.stretched), np.flatnonzero(cosine(trio.short) < 0)
    other = value(found, "other_ratio", "cosine")
    if not negative.size:
        assert np.isnan(other)
    else:
        assert other == pytest.approx((2 * negative[-1] + 1) / (2 * trio.blocks))
        assert value(found, "other_ratio", "interpolated_cosine") == pytest.approx(
            (2 * negative[-1] + 1.5) / (2 * trio.blocks)
        )

"""The faults of published code: each is an option, off by default, and leaves the mark that its description names."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from support import waves, zoo
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.measures.registry import MEASURES
from bathyscope.surveying.papers.faults import FAULTS, Fault, faults_in

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "papers.md"
IDS = [fault.options_text for fault in FAULTS]
LENGTHS = (14, 9, 17)
WIDTH = 64


@cache
def surveyed(preset: str, lengths: tuple[int, ...] = LENGTHS) -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), lengths)
    measures = ["residual", "lens", "skip", "effective_depth"]
    few = {"resamples": 20}
    return bathyscope.survey(waves.loaded("llama"), ids, measures, preset=preset, effective_depth=few, progress=False)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_fault_is_no_default(fault: Fault) -> None:
    defaults = asdict(MEASURES[fault.measure].options_type())
    assert not any(fault.holds({**fault.options, name: defaults[name]}) for name in fault.options)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_fault_changes_what_its_measure_finds_and_stands_in_the_manifest(fault: Fault) -> None:
    ids = zoo.prompts(zoo.build("llama"), (22, 17))
    prompts = [bathyscope.Prompt(ids=own, answer_tokens=3, labels={"level": n}) for n, own in enumerate(ids)]
    found = []
    for options in ({}, fault.options):
        model = waves.loaded("llama")
        run = bathyscope.survey(model, prompts, [fault.measure], **{fault.measure: options}, progress=False)
        found.append((run[fault.measure], faults_in(run.manifest["identity"]["measures"])))
    (right, none), (wrong, named) = found
    assert none == ()
    assert named == (fault,)
    assert not right.identical(wrong)
    assert re.match(
        rf"{re.escape(fault.options_text)} reproduces? a fault of {fault.paper}'s published code: ", fault.note()
    )


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_fault_is_documented(fault: Fault) -> None:
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    own = [row for row in rows if f"`{fault.options_text}`" in row]
    assert len(own) == 1
    assert fault.paper in own[0]


def test_mean_norms_are_the_last_prompts_over_all_tokens() -> None:
    """csordas2025: with n equal prompts the published means are n times too small, else by the last one's share."""
    once = zoo.prompts(zoo.build("llama"), (12,))[0]
    preset = "csordas2025-as-published"
    run = bathyscope.survey(waves.loaded("llama"), [once] * 5, ["residual"], preset=preset, progress=False)
    for part in ("resid", "attn", "mlp"):
        right = run["residual"][f"norm_{part}"].mean("prompt")
        np.testing.assert_allclose(right / run["residual"][f"published_norm_{part}"], 5, rtol=1e-6)
    uneven = surveyed(preset)["residual"]
    expected = uneven["norm_resid"][-1] * LENGTHS[-1] / sum(LENGTHS)
    np.testing.assert_allclose(uneven["published_norm_resid"], expected, rtol=1e-12)


def test_mean_contributions_are_scaled_by_prompt_length_over_width() -> None:
    """hu2025: the ratio of published to right means is T/d, T the mean length of the prompts."""
    found = surveyed("hu2025-as-published")["residual"]
    for name in ("cos_attn", "cos_mlp", "cos_block", "ratio_attn", "ratio_mlp", "ratio_block"):
        right = found[name].weighted(found["n_tokens"]).mean("prompt")
        published = found[f"published_{name}"]
        np.testing.assert_allclose(published / right, np.mean(LENGTHS) / WIDTH, rtol=1e-9)
        np.testing.assert_array_equal(np.sign(published), np.sign(right))


def test_the_effective_depth_survives() -> None:
    right, wrong = surveyed("hu2025")["effective_depth"], surveyed("hu2025-as-published")["effective_depth"]
    curves = ["cosine", "kl", "overlap"]
    xr.testing.assert_identical(right.sel(estimator=curves), wrong.sel(estimator=curves))


def test_a_prompts_own_values_stay_right() -> None:
    right, wrong = surveyed("hu2025")["residual"], surveyed("hu2025-as-published")["residual"]
    xr.testing.assert_identical(right, wrong.drop_vars([n for n in wrong if str(n).startswith("published_")]))


def test_skipped_channels_leave_a_diagonal() -> None:
    """hu2025: the diagonal of the future effects is √((t−1)/d) or slightly more, where it must be 0."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=512, num_hidden_layers=3, num_attention_heads=8, intermediate_size=256, vocab_size=96
    )
    model = bathyscope.load(LlamaForCausalLM(config).eval())
    t, width = 160, 512
    assert t - 1 >= width / 4
    ids = zoo.prompts(model.hf, (200,))
    measured = {}
    for axis in ("tokens", "channels"):
        options = {"axis": axis, "positions": [[t]]}
        found = bathyscope.survey(model, ids, ["skip"], skip=options, progress=False)["skip"]
        future = found.effect_future.sel(part="block", reduction="max").values[0]
        measured[axis] = np.diagonal(future)
    expected = np.sqrt((t - 1) / width)
    assert (measured["tokens"] == 0).all()
    assert (measured["channels"] >= expected).all()
    assert (measured["channels"] <= 1.25 * expected).all()

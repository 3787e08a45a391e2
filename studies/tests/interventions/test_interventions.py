"""Parallel neighbours and bounded activations: numbers of known curves, and a page that is what is stored."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import zoo
from support.word_tokenizer import word_tokenizer

import bathyscope
from bathyscope.errors import OptionError
from studies.interventions import closer, measuring
from studies.interventions.closer import CHANGES
from studies.interventions.command import PAGE
from studies.interventions.expected import EXPECTATIONS, MASSIVE_PROMPTS, PAIR_PROMPTS
from studies.interventions.measuring import RESULTS, STUDIES, VARIANTS, massive_activations, measure, neighbours
from studies.interventions.page import PARTS, marks_of, with_results
from studies.interventions.quantities import (
    QUANTITIES,
    Sample,
    arrays_of,
    decide,
    load_stored,
    read_quantity,
    with_interval,
)
from studies.real_model.models import REAL_MODELS, SMOLLM2
from studies.real_model.reading import Reading

BLOCKS, PROMPTS = 16, 6


def by_prompt(curve: Any, noise: float = 0.0) -> np.ndarray[Any, Any]:
    values = np.asarray(curve, np.float64)
    jitter = noise * np.random.default_rng(0).standard_normal((PROMPTS, *[1] * values.ndim))
    return values + jitter


def pairs(parallel: Any, noise: float = 0.0) -> xr.Dataset:
    """Removing a block costs 1, swapping two 0.5; the loss itself is 3."""
    variables = {
        "loss_parallel": (("prompt", "pair"), by_prompt(3 + np.asarray(parallel), noise)),
        "loss_swapped": (("prompt", "pair"), by_prompt(np.full(BLOCKS - 1, 3.5))),
        "loss_dropped": (("prompt", "block"), by_prompt(np.full(BLOCKS, 4.0))),
        "baseline_loss": (("prompt",), by_prompt(3.0)),
        "n_averaged": (("prompt",), np.arange(10, 10 + PROMPTS)),
    }
    return xr.Dataset(variables)


def massive(noise: float = 0.0) -> xr.Dataset:
    """Leaving out costs 2 and clamping 0.1; half of the tokens are kept from 8, 8.5 and 10 of 16 blocks on."""
    dims = ("variant", "prompt")
    boundary = np.arange(BLOCKS + 1)
    largest = np.stack([np.where(boundary > 11, 1000.0 / factor, 1.0) for factor in (1, 10, 100)])
    kept = np.stack([np.interp(boundary, [start, start + 1, BLOCKS], [0, 0.6, 1]) for start in (7, 8, 9)])
    cost = np.linspace(0.1, 1.6, BLOCKS)
    cost_by_variant = np.stack([cost, cost * 2, cost[::-1]])
    cost_by_variant[0, 11], cost_by_variant[2, 11] = 4.0, 0.5
    loss = np.array([3.0, 3.1, 5.0])
    norm = np.stack([np.full(BLOCKS + 1, size) for size in (50.0, 50.0, 45.0)])

    def spread(values: Any) -> np.ndarray[Any, Any]:
        return np.moveaxis(by_prompt(values, noise), 0, 1)

    variables = {
        "residual.largest": ((*dims, "boundary"), spread(largest)),
        "residual.norm_resid": ((*dims, "boundary"), spread(norm)),
        "residual.norm_resid_rest": ((*dims, "boundary"), spread(norm)),
        "lens.top1_kept": ((*dims, "boundary"), spread(kept)),
        "skip.output_all": ((*dims, "block"), spread(cost_by_variant)),
        "drop.loss": ((*dims, "block"), spread(loss[:, None] + cost_by_variant)),
        "drop.baseline_loss": (dims, spread(loss)),
        "n_averaged": (dims, np.tile(np.arange(10, 10 + PROMPTS), (3, 1))),
    }
    return xr.Dataset(variables, coords={"variant": list(VARIANTS)})


def quantity(key: str, data: xr.Dataset) -> float:
    return QUANTITIES[key][1](Sample(arrays_of(data)))


def test_every_expectation_has_a_number_and_none_is_left_over() -> None:
    assert [expectation.key for expectation in EXPECTATIONS] == list(QUANTITIES)
    # the closer look was taken afterwards
    assert {name for name, _ in QUANTITIES.values()} == set(STUDIES) - {"closer"}
    for expectation in EXPECTATIONS:
        assert QUANTITIES[expectation.key][0].startswith(expectation.study)
        assert all(low < high for low, high in expectation.bounds.values())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallel_against_dropping", 0.2),
        ("parallel_against_swapping", 0.4),
        ("parallel_late_against_early", 0.2 / 0.4),
        ("parallel_untrained", 0.2),
        ("parallel_of_the_writer", 1.0),
    ],
)
def test_pairs_of_both_halves(key: str, value: float) -> None:
    """Eight pairs begin in the first half: that with block 0, and that of blocks 7 and 8, belong to no half."""
    parallel = np.array([9.0, *[0.4] * 6, 7.0, *[0.2] * 7])
    # the writer's two pairs cost the median
    parallel[[10, 11]] = 0.2
    expected = 0.2 / np.median(parallel) if key == "parallel_of_the_writer" else value
    assert quantity(key, pairs(parallel)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("largest_clamped", 0.1),
        ("largest_left_out", 0.01),
        ("loss_clamped", 0.1),
        ("loss_left_out", 2.0),
        ("loss_against_the_writer", 2.0 / 4.0),
        ("writer_left_over", 0.5 / 4.0),
        ("norm_of_the_rest", 0.9),
        ("depth_clamped", 1 / BLOCKS),
        ("depth_left_out", 2 / BLOCKS),
    ],
)
def test_readings_of_bounded_activations(key: str, value: float) -> None:
    assert quantity(key, massive()) == pytest.approx(value, rel=0.02)


def test_rank_correlations_are_of_the_costs_of_blocks() -> None:
    data = massive()
    data["drop.loss"][1] = data["drop.baseline_loss"][1] + 3 * (data["drop.loss"][0] - data["drop.baseline_loss"][0])
    data["drop.loss"][2] = data["drop.baseline_loss"][2] - (data["drop.loss"][0] - data["drop.baseline_loss"][0])
    assert quantity("profile_clamped", data) == pytest.approx(1.0)
    assert quantity("profile_left_out", data) == pytest.approx(-1.0)


def test_prompts_count_by_their_tokens() -> None:
    data = pairs(np.zeros(BLOCKS - 1))
    data["loss_parallel"][0] += 1.0
    weights = data["n_averaged"].values
    assert quantity("parallel_untrained", data) == pytest.approx(weights[0] / weights.sum())


def test_an_interval_is_of_the_spread_of_prompts() -> None:
    same = with_interval(pairs(np.ones(BLOCKS - 1)), QUANTITIES["parallel_untrained"][1])
    apart = with_interval(pairs(np.ones(BLOCKS - 1), noise=0.5), QUANTITIES["parallel_untrained"][1])
    assert same.low == pytest.approx(same.high) == pytest.approx(1.0)
    assert apart.high - apart.low > 0.3
    assert apart.low < apart.value < apart.high


def test_an_expectation_is_decided_by_its_interval() -> None:
    expectation = next(each for each in EXPECTATIONS if each.key == "parallel_against_dropping")
    assert decide(expectation, "smollm2", Reading(0.2, 0.1, 0.4)) == "holds"
    assert decide(expectation, "smollm2", Reading(0.7, 0.6, 0.9)) == "does not hold"
    assert decide(expectation, "smollm2", Reading(0.5, 0.4, 0.6)) == "cannot be decided"


def test_pairs_of_a_model_are_its_removals_and_schedules() -> None:
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf, (12, 9))
    data = neighbours(model, prompts)
    run = bathyscope.survey(model, prompts, ["drop", "swap"], swap={"parallel": True}, progress=False)
    np.testing.assert_array_equal(data["loss_dropped"], run["drop"].loss)
    np.testing.assert_array_equal(data["kl_parallel"], run["swap"].kl_parallel)
    assert data.sizes == {"prompt": 2, "block": model.n_blocks, "pair": model.n_blocks - 1}


def test_bounded_variants_lose_the_massive_activation_of_the_sink() -> None:
    """The model is wired so that one block writes it, and a later one takes it away."""
    model = bathyscope.load(zoo.build("gpt2_sink"))
    prompts = zoo.prompts(model.hf, (14, 12, 13))
    largest = float(bathyscope.survey(model, prompts, ["residual"], progress=False)["residual"].largest.max())
    data = massive_activations(model, prompts, largest / 10)
    by_variant = Sample(arrays_of(data)).most("residual.largest")
    assert by_variant[0] == pytest.approx(largest)
    assert by_variant[1] < 0.5 * largest
    assert by_variant[2] < 0.5 * largest
    assert data.attrs["bound"] == largest / 10


def test_the_depth_is_the_headline_of_the_run() -> None:
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf, (14, 9, 17, 12))
    data = massive_activations(model, prompts, 1e6)
    head = bathyscope.survey(model, prompts, list(measuring._PROFILE), progress=False).record()["head"]
    depths = Sample(arrays_of(data)).half_depth()
    np.testing.assert_allclose(depths, head["half"])
    assert with_interval(data, lambda sample: float(sample.half_depth()[0])).value == pytest.approx(head["half"])


def test_what_is_stored_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word{number}" for number in range(40)]
    text = "\n".join(" ".join(words[start : start + 12]) for start in range(28))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "wikitext2_valid.txt").write_text(f"\n{text}\n" * 3, encoding="utf-8")
    loaded: list[str] = []

    def tiny(name: str, folder: Path) -> bathyscope.Model:
        loaded.append(name)
        model = bathyscope.load(zoo.build("llama"))
        return dataclasses.replace(model, given_tokenizer=word_tokenizer(words))

    monkeypatch.setattr(measuring, "control", tiny)
    for _ in range(2):
        measure(SMOLLM2, tmp_path, tmp_path, ("pairs", "pairs_untrained"), tmp_path / "results")
    assert loaded == ["smollm2", "untrained_0"]
    stored = load_stored(tmp_path / "results", "smollm2")
    assert set(stored) == {"pairs", "pairs_untrained"}
    assert {data.sizes["prompt"] for data in stored.values()} == {PAIR_PROMPTS["smollm2"]}
    assert "untrained" in stored["pairs_untrained"].attrs["model"]


def test_changes_of_single_contributions_are_those_of_their_names() -> None:
    """Of a model of two heads of a list: what an MLP adds is changed at the first token alone, or in every number."""
    written = torch.tensor([[[3.0, -0.5], [-3.0, 0.5]]])
    by_name = {
        name: [change(written, 1.0).tolist()[0] for change in changes.values()] for name, changes in CHANGES.items()
    }
    rest = [-3.0, 0.5]
    assert by_name == {
        "as it is": [],
        "block 11 alone clamped": [[[1.0, -0.5], [-1.0, 0.5]]],
        "blocks 28 and 29 alone clamped": [[[1.0, -0.5], [-1.0, 0.5]]] * 2,
        "at the first token a tenth of what block 11's MLP adds": [[pytest.approx([0.3, -0.05]), rest]],
        "… a hundredth": [[pytest.approx([0.03, -0.005]), rest]],
        "… only its numbers above the bound": [[[3.0, 0.0], rest]],
        "… nothing": [[[0.0, 0.0], rest]],
    }


def test_a_closer_look_changes_the_model_for_one_forward_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clamping the one MLP that writes is the bounded model, where no other part is beyond the bound."""
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf, (12, 9))
    changes = {"as it is": {}, "clamped": dict.fromkeys(range(model.n_blocks), CHANGES["block 11 alone clamped"][11])}
    monkeypatch.setattr(closer, "CHANGES", changes)
    run = bathyscope.survey(model, prompts, ["residual", "drop"], progress=False)
    attention = float(run["residual"].norm_attn_max.max())
    data = closer.look_closer(model, prompts, attention)
    bounded = bathyscope.survey(model, prompts, ["drop"], bound=f"clamp:{attention!r}", progress=False)
    expected = [run["drop"].baseline_loss, bounded["drop"].baseline_loss]
    np.testing.assert_allclose(data["loss"], expected, rtol=1e-5)
    np.testing.assert_array_equal(data["n_averaged"], [11, 8])


def test_the_conclusions_hold_of_what_is_stored() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    stored = load_stored(RESULTS, "smollm2")
    sample = Sample(arrays_of(stored["massive"]))
    removals, loss = sample.removals(), sample.mean("drop.baseline_loss")
    assert f"({np.log(49152):.1f} nats)" in text
    assert min(loss[1:]) > np.log(49152)
    assert f"the bounded model is better by {-removals[2, 11]:.1f} nats" in text
    # back at the whole model without block 11
    assert loss[2] + removals[2, 11] == pytest.approx(loss[0] + removals[0, 11], abs=0.3)
    assert (removals[1:, 8:12] < 0).all()
    norm = [sample.mean(f"residual.norm_resid{end}", over_all_tokens=not end)[0, 15] for end in ("", "_rest")]
    assert "is {:.0f} with the first token and {:.0f} without it".format(*norm) in text
    rest = sample.mean("residual.norm_resid_rest")
    np.testing.assert_array_equal(rest[0, :12], rest[2, :12])
    assert (rest[2, 13:30] > rest[0, 13:30]).all()
    change = Sample(arrays_of(stored["closer"])).mean("loss")
    added = dict(zip(stored["closer"]["change"].values.tolist(), change - change[0]))
    assert added["block 11 alone clamped"] > 10
    assert abs(added["blocks 28 and 29 alone clamped"]) < 0.1
    assert added["at the first token a tenth of what block 11's MLP adds"] < 0.4
    assert added["… a hundredth"] > 2
    assert added["… only its numbers above the bound"] < 0
    assert 1 < added["… nothing"] < 3
    # the same model, by the bounded survey and by hooks
    assert change[0] == pytest.approx(loss[0], abs=1e-3)
    pairs = Sample(arrays_of(stored["pairs"]))
    parallel, dropped = pairs.added("parallel"), pairs.added("dropped")
    assert parallel[28] == pytest.approx(dropped[29], rel=0.05)
    assert {*np.argsort(-parallel)[:5].tolist()} == {0, 1, 11, 27, 28}
    gemma3 = load_stored(RESULTS, "gemma3")
    pairs = Sample(arrays_of(gemma3["pairs"]))
    assert {*np.argsort(-pairs.added("dropped"))[:3].tolist()} == {1, 3, 5}
    assert {*np.argsort(-pairs.added("parallel"))[:4].tolist()} == {0, 1, 3, 5}
    for each in (stored, gemma3):
        untrained = Sample(arrays_of(each["pairs_untrained"]))
        assert all(abs(untrained.added(kind).mean()) < 0.02 for kind in ("parallel", "dropped"))


def test_the_page_is_what_is_stored() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_results(text, RESULTS) == text


def test_what_is_not_measured_says_so(tmp_path: Path) -> None:
    text = "\n".join(line for name in PARTS for line in marks_of(name))
    page = with_results(text, tmp_path)
    rows = [line for line in page.splitlines() if line.endswith("**not measured yet** |")]
    assert len(rows) == sum(len(expectation.bounds) for expectation in EXPECTATIONS)
    assert page.count("**SmolLM2**: not measured yet.") == 1
    with pytest.raises(OptionError, match="The page has no place for the results"):
        with_results("nothing", tmp_path)


def test_stored_results_are_of_the_numbers_of_prompts_that_were_fixed_before() -> None:
    for model in REAL_MODELS:
        for name, data in load_stored(RESULTS, model).items():
            fixed = PAIR_PROMPTS if name.startswith("pairs") else MASSIVE_PROMPTS
            assert data.sizes["prompt"] == fixed[model]


def test_a_stored_reading_is_printed_with_its_interval() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for expectation in EXPECTATIONS:
        for model in expectation.bounds:
            reading = read_quantity(expectation.key, load_stored(RESULTS, model))
            if reading is not None:
                value, low, high = (f"{number:.2f}".replace("-", "−") for number in reading)
                assert re.search(re.escape(f"| {value} ({low} to {high}) |"), page)

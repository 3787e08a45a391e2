"""Depth by number of steps: what is asked is what was trained on, and nothing finished is done again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from statsmodels.stats.proportion import proportion_confint

import bathyscope
from bathyscope import load
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import task
from studies.problem_depth.experiment import ProblemDepth, problem_depth, trends
from studies.problem_depth.readings import READINGS, readings

TINY = (
    "model.hidden_size=16",
    "model.intermediate_size=32",
    "model.num_attention_heads=2",
    "model.num_key_value_heads=2",
    "task.options.factors=[1, 3]",
    "task.options.beyond=[4, 4]",
    "stages.0.batch=16",
    "budget.steps=50",
    "optimisation.warmup_steps=5",
    "evaluation.problems=4",
    "evaluation.final_problems=4",
)
OPTIONS = ProblemDepth(blocks=(1, 2), seeds=(0, 1), asked=12, measured=4, controls=1)
ONE_SEED = replace(OPTIONS, seeds=(1,))
"""Models that are trained and surveyed already, to be asked otherwise."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiment")


@pytest.fixture(scope="module")
def found(folder: Path) -> xr.Dataset:
    return problem_depth(OPTIONS, folder, device="cpu", progress=False, changes=TINY)


@pytest.mark.thorough
def test_accuracy_is_that_of_greedy_answers(found: xr.Dataset, folder: Path) -> None:
    made = task("permutations", factors=(1, 3), beyond=(4, 4), elements="generators", answer="image")
    for blocks in OPTIONS.blocks:
        model = load(folder / "models" / f"{blocks}-blocks-seed-1")
        tokenizer = model.tokenizer
        assert tokenizer is not None
        right: dict[int, list[bool]] = {1: [], 2: [], 3: []}
        problems = [made.problem(index, 0, "interpolate") for index in range(36)]
        different = list({problem.question: problem for problem in problems}.values())
        assert len(different) < 36, "some problem is drawn twice"
        for problem in different:
            ids = tokenizer(problem.question, return_tensors="pt").input_ids
            with torch.no_grad():
                answer = int(model.hf(ids).logits[0, -1].argmax())
            right[int(problem.labels["k"])].append(tokenizer.decode([answer]).strip() == problem.answer)
        wanted = [np.mean(right[level]) for level in (1, 2, 3)]
        np.testing.assert_array_equal(found.accuracy.sel(blocks=blocks, seed=1, steps=[1, 2, 3]), wanted)
        counts = [len(right[level]) for level in (1, 2, 3)]
        np.testing.assert_array_equal(found.n_problems.sel(blocks=blocks, seed=1, steps=[1, 2, 3]), counts)
    assert 0 < float(found.accuracy.mean()) < 1
    assert bool((found.accuracy_low <= found.accuracy + 1e-12).all())
    assert bool((found.accuracy <= found.accuracy_high + 1e-12).all())


def test_readings_have_a_value_for_every_problem(found: xr.Dataset) -> None:
    assert dict(found.value.sizes) == {"blocks": 2, "seed": 2, "reading": len(READINGS), "prompt": 12}
    assert sorted(found.prompt_steps.values) == [1] * 4 + [2] * 4 + [3] * 4
    assert bool((found.prompt_moves <= found.prompt_steps).all())
    assert len(np.unique(found.prompt_moves)) > 1
    assert list(found.reading.values) == list(READINGS)
    deep = found.value.sel(blocks=2)
    assert bool((deep.sel(reading="lens_settle") <= 2).all())
    assert bool(deep.sel(reading="erasure").notnull().all())


def test_unsolved_levels_have_no_trend_and_say_why(found: xr.Dataset) -> None:
    assert not found.solved.any()
    assert bool(found.slope.isnull().all())
    assert "at least 3 prompts" in str(found.reason.values[0, 0, 0])


@pytest.mark.thorough
def test_it_is_known_of_each_measured_problem_who_solves_it(found: xr.Dataset, folder: Path) -> None:
    right = found.right.sel(seed=[1])
    fewer = problem_depth(replace(ONE_SEED, asked=4), folder, device="cpu", progress=False, changes=TINY)
    shares = right.groupby("prompt_steps").mean("prompt").rename(prompt_steps="steps")
    xr.testing.assert_allclose(shares.transpose(*fewer.accuracy.dims), fewer.accuracy)
    more = problem_depth(replace(ONE_SEED, asked=1), folder, device="cpu", progress=False, changes=TINY)
    xr.testing.assert_identical(more.right, right)
    assert set(np.unique(more.accuracy)) == {0.0, 1.0}
    assert list(found.pair.values) == ["1 and 2 blocks"]
    assert (found.class_count.sum("solved_by") == 12).all()


@pytest.mark.thorough
def test_untrained_models_read_the_same_problems_over_the_same_levels(found: xr.Dataset, folder: Path) -> None:
    assert list(found.control.values) == ["untrained-0"]
    lenient = replace(ONE_SEED, solved_from=1e-9)
    again = problem_depth(lenient, folder, device="cpu", progress=False, changes=TINY).sel(blocks=2, seed=1)
    levels = again.steps.values[again.solved.values]
    assert len(levels) >= 2
    run = bathyscope.open(folder / "runs" / "2-blocks-seed-1")
    for own, slopes in (
        (run, again.slope),
        (run.controls["untrained-0"], again.untrained_slope.sel(control="untrained-0")),
    ):
        # what one depth is read for, by hand: a repeated problem counts once
        value = readings(own).sel(reading="erasure")
        firsts = {ids: number for number, ids in reversed(list(enumerate(tuple(p.ids) for p in own.prompts)))}
        kept = sorted(firsts.values())
        steps = value["steps"].values[kept]
        solved = np.isin(steps, levels)
        slope = np.polyfit(steps[solved], value.values[kept][solved], 1)[0]
        assert float(slopes.sel(reading="erasure")) == pytest.approx(slope)


@pytest.mark.thorough
def test_right_answers_of_any_level_have_a_trend_without_a_threshold(found: xr.Dataset, folder: Path) -> None:
    own = found.sel(blocks=2, seed=1, reading="erasure")
    right = own.right.values
    assert 3 <= right.sum() < right.size
    slope = np.polyfit(own.prompt_steps.values[right], own.value.values[right], 1)[0]
    assert float(own.right_slope) == pytest.approx(slope)
    assert float(found.slope.sel(blocks=2, seed=1, reading="erasure").isnull())
    strict = problem_depth(replace(ONE_SEED, solved_from=1.0), folder, device="cpu", progress=False, changes=TINY)
    xr.testing.assert_equal(strict.right_slope, found.right_slope.sel(seed=[1]))
    # untrained models are surveyed beside the first seed alone, and are the same beside any other
    xr.testing.assert_equal(strict.untrained_right_slope, found.untrained_right_slope.sel(seed=[1]))
    assert bool(found.untrained_right_slope.sel(blocks=2, seed=1, reading="erasure").notnull())
    assert found.attrs["precision"] == "float32"


def test_a_level_on_the_edge_is_said_to_be(found: xr.Dataset) -> None:
    holds = (found.accuracy_low < OPTIONS.solved_from) & (found.accuracy_high >= OPTIONS.solved_from)
    np.testing.assert_array_equal(found.on_edge, holds)
    low, high = proportion_confint([179, 180], 200, 0.05, "wilson")
    assert (low < 0.9).all()
    assert (high > 0.9).all(), "one problem more or less does not decide"


def test_what_is_finished_is_not_done_again(found: xr.Dataset, folder: Path) -> None:
    weights = sorted(folder.rglob("model.safetensors"))
    before = [path.stat().st_mtime_ns for path in weights]
    again = problem_depth(OPTIONS, folder, device="cpu", progress=False, changes=TINY)
    assert len(before) == 4
    assert [path.stat().st_mtime_ns for path in weights] == before
    xr.testing.assert_identical(again, found)


def test_the_trend_is_over_solved_levels() -> None:
    steps = np.repeat([1, 2, 3, 4], 10)
    noise = np.random.default_rng(0).normal(0, 0.01, (len(READINGS), 40))
    # 2 blocks a step up to three steps, and nothing of the kind at four, which is not solved
    value = xr.DataArray(
        np.where(steps == 4, 0, 2 * steps) + noise, {"steps": ("prompt", steps)}, ("reading", "prompt")
    )
    own = trends(value.assign_coords(reading=list(READINGS)), [1, 2, 3])
    np.testing.assert_allclose(own["slope"][1], 2, atol=0.01)
    assert (own["p_value"][1] < 0.01).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solved_from": 1.5}, r"solved_from=1\.5 is out of range; give a share of problems, 0 to 1\."),
        ({"blocks": ()}, "blocks and seeds are empty; give at least one of each"),
        ({"blocks": (2, 0)}, r"blocks: 0 is out of range; give whole numbers of at least 1\."),
        ({"seeds": (-1,)}, r"seeds: -1 is out of range; give whole numbers of at least 0\."),
        ({"blocks": (2, 4, 2)}, r"blocks names 2 twice; name each once\."),
        ({"seeds": (0, 0)}, r"seeds names 0 twice; name each once\."),
        ({"asked": 0}, r"asked=0 is out of range; give at least 1\."),
    ],
)
def test_options_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ProblemDepth(**given)


def test_recipes_that_cannot_be_asked_are_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'depth_12' trains on texts; depth by steps needs one with a task"):
        problem_depth(ProblemDepth(recipe="depth_12"), tmp_path)
    with pytest.raises(OptionError, match=r"has no numbers of steps, but .*take permutations, pointer_chasing or"):
        problem_depth(ProblemDepth(recipe="arithmetic_transformer"), tmp_path)
    message = (
        r"The recipe 'permutations' trains on written steps \(steps: true\), but this experiment asks for the answer "
        r"right after the question, without them; train without them too: --set steps=false\."
    )
    with pytest.raises(OptionError, match=message):
        problem_depth(ProblemDepth(), tmp_path, changes=("steps=true",))
    assert not list(tmp_path.iterdir())

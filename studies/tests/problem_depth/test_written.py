"""Written steps: what the model writes by itself, single states by hand, and slopes on readings that are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.train import train

import bathyscope
from bathyscope import load
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import task
from studies.problem_depth.readings import READINGS, readings
from studies.problem_depth.written import held_out, rows_of, single_steps, step_slopes, written
from studies.problem_depth.written_figure import draw

CHANGES = (
    "model.hidden_size=16",
    "model.intermediate_size=32",
    "model.num_attention_heads=2",
    "model.num_key_value_heads=2",
    "model.num_hidden_layers=2",
    "task.options.factors=[1, 2]",
    "task.options.beyond=[3, 3]",
    "stages.0.batch=16",
    "budget.steps=80",
    "optimisation.learning_rate=0.01",
    "optimisation.warmup_steps=5",
    "evaluation.problems=4",
    "evaluation.final_problems=4",
)
MADE = task("permutations", factors=(1, 2), beyond=(3, 3), elements="generators", answer="image")


def recipe(*changes: str) -> Recipe:
    return read_recipe("permutations", [*CHANGES, *changes])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Folders of models by number, each trained when it is first asked for: at once, written, written from seed 1."""
    top = tmp_path_factory.mktemp("written")
    made = (recipe(), recipe("steps=true", "loss=written"), recipe("steps=true", "loss=written", "seed=1"))
    return cache(lambda number: train(made[number], top / str(number), device="cpu", progress=False).folder)


@pytest.fixture(scope="module")
def folders(trained: Callable[[int], Path]) -> list[Path]:
    return [trained(number) for number in range(3)]


@pytest.fixture(scope="module")
def found(folders: list[Path]) -> xr.Dataset:
    return written(folders, folders[0].parent / "out", asked=12, measured=4, controls=1, progress=False)


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "kind", "count"), [(0, "2 blocks, at once", 1), (1, "2 blocks, written", 3)])
def test_answers_are_what_the_model_writes_last(
    found: xr.Dataset, folders: list[Path], number: int, kind: str, count: int
) -> None:
    model = load(folders[number], device="cpu", dtype="float32")
    assert model.tokenizer is not None
    problems = {problem.question: problem for problem in (MADE.problem(n, 0, "interpolate") for n in range(24))}
    right: dict[int, list[tuple[bool, bool]]] = {1: [], 2: []}
    for problem in problems.values():
        ids = model.tokenizer(problem.question, return_tensors="pt").input_ids
        length = ids.shape[1]
        for _ in range(count):
            with torch.no_grad():
                ids = torch.cat([ids, model.hf(ids).logits[:, -1:].argmax(-1)], 1)
        words = model.tokenizer.decode(ids[0, length:]).split()
        wanted = f"{problem.steps} {problem.answer}".split()[-count:]
        right[int(problem.labels["k"])].append((words[-1] == problem.answer, words == wanted))
    own = found.sel(kind=kind, seed=0)
    for level in (1, 2):
        answers, whole = np.mean(right[level], axis=0)
        assert float(own["accuracy"].sel(steps=level)) == pytest.approx(answers)
        assert float(own["whole"].sel(steps=level)) == pytest.approx(whole)
    assert 0 < float(own["accuracy"].mean()) <= 1


def test_single_steps_end_with_a_state_and_know_whether_it_changed(trained: Callable[[int], Path]) -> None:
    model = load(trained(1), device="cpu", dtype="float32")
    assert model.tokenizer is not None
    problems = held_out(recipe(), 6)
    prompts = single_steps(problems, model)
    assert len(prompts) == 3 * len(problems)
    for number, problem in enumerate(problems):
        states = [problem.question.split()[-2], *f"{problem.steps} {problem.answer}".split()]
        own = prompts[3 * number : 3 * number + 3]
        assert [model.tokenizer.decode(list(prompt.ids or ()), skip_special_tokens=True) for prompt in own] == [
            f"{problem.question} {' '.join(states[1 : place + 1])}" for place in (1, 2, 3)
        ]
        assert [prompt.labels["moved"] for prompt in own] == [int(a != b) for a, b in pairwise(states)]
        assert sum(int(prompt.labels["moved"]) for prompt in own) == problem.labels["moves"]
        assert {prompt.labels["steps"] for prompt in own} == {problem.labels["k"]}


def test_slopes_find_what_was_put_in() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([(k, place, rng.integers(2), n) for n, k in enumerate([1, 2, 3, 4] * 10) for place in (1, 2, 3)])
    steps, place, moved, problem = labels.T
    values = np.stack([0.5 * steps - 2.0 * moved + place**2 + 0.1 * rng.normal(size=len(steps)), np.ones(len(steps))])
    coords = {"steps": steps, "turn": place, "moved": moved, "problem": problem}
    own = xr.DataArray(
        values, {"reading": ["a", "b"], **{n: ("prompt", v) for n, v in coords.items()}}, ("reading", "prompt")
    )
    found = step_slopes(own)
    a, b = found.sel(reading="a"), found.sel(reading="b")
    assert float(a["by_steps_low"]) < 0.5 < float(a["by_steps_high"]) < 0.55
    assert -2.2 < float(a["by_change_low"]) < -2.0 < float(a["by_change_high"])
    assert float(a["depth"]) == pytest.approx(values[0].mean())
    assert float(b["depth"]) == 1
    assert bool(b["by_steps"].isnull())


@pytest.mark.thorough
def test_readings_are_of_single_states_and_stand_beside_untrained_ones(found: xr.Dataset, folders: list[Path]) -> None:
    value = readings(bathyscope.open(folders[0].parent / "out/runs/2-blocks-written-seed-1"))
    own = found.sel(kind="2 blocks, written", seed=1, reading="lens_prediction")
    alone = value.sel(reading="lens_prediction")
    assert float(own["depth"]) == pytest.approx(float(alone.mean()))
    picked = (alone["steps"].values == 2) & (alone["moved"].values == 1)
    assert float(own["state_depth"].sel(steps=2, moved=1)) == pytest.approx(alone.values[picked].mean())
    assert found["control"].values.tolist() == ["untrained-0"]
    assert bool(found.sel(kind="2 blocks, at once")["depth"].isnull().all())


@pytest.mark.thorough
def test_rows_are_means_over_seeds_and_the_figure_draws_every_kind(found: xr.Dataset) -> None:
    rows = rows_of(found)
    two = [row for row in rows if row["kind"] == "2 blocks, written" and row.get("reading") == "erasure"]
    wanted = found["depth"].sel(kind="2 blocks, written", reading="erasure").values
    assert two[0]["mean"] == pytest.approx(wanted.mean())
    assert (two[0]["least"], two[0]["most"], two[0]["seeds"]) == (wanted.min(), wanted.max(), 2)
    assert {row["kind"] for row in rows if "reading" in row} == {"2 blocks, written"}
    axes = draw(found).axes
    assert [line.get_label() for line in axes[0].lines] == ["2 blocks, at once", "2 blocks, written"]
    assert len(axes) == 3
    assert READINGS["erasure"].title.capitalize() in axes[2].get_title("left")


def test_models_that_do_not_belong_together_are_refused(trained: Callable[[int], Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No model is given"):
        written([], tmp_path)
    for name, own, message in (
        ("same", recipe(), "Two models are 2 blocks, at once of seed 0; give each once"),
        ("other", recipe("task.options.answer=product"), "trained on another task or other options of it"),
        ("given", replace(recipe("steps=true"), loss="answer"), r"was not taught to write its steps; .*loss=written"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(own.to_yaml())
        with pytest.raises(OptionError, match=message):
            written([trained(0), tmp_path / name], tmp_path / "out")

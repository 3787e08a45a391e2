"""Accuracy and slopes through a training, against what the finished model alone gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.train import train
from scipy import stats

import bathyscope
from bathyscope import solved
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import task
from studies.common.problems import task_text
from studies.problem_depth.course import course, kept_steps, mean_rows, rows_of
from studies.problem_depth.course_figure import draw
from studies.problem_depth.readings import readings

CHANGES = (
    "model.hidden_size=16",
    "model.intermediate_size=32",
    "model.num_attention_heads=2",
    "model.num_key_value_heads=2",
    "model.num_hidden_layers=2",
    "task.options.factors=[1, 3]",
    "task.options.beyond=[4, 4]",
    "stages.0.batch=16",
    "budget.steps=40",
    "optimisation.warmup_steps=5",
    "evaluation.problems=4",
    "evaluation.final_problems=4",
)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return read_recipe("permutations", [*CHANGES, "saving.keep=[0, 40]"])


@pytest.fixture(scope="module")
def folder(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(recipe, tmp_path_factory.mktemp("course") / "model", device="cpu", progress=False).folder


@pytest.fixture(scope="module")
def found(folder: Path) -> xr.Dataset:
    return course([folder], folder.parent / "out", asked=6, progress=False)


def test_each_step_is_asked_the_problems_of_the_finished_model(found: xr.Dataset, folder: Path, recipe: Recipe) -> None:
    assert found["step"].values.tolist() == [0, 40]
    assert recipe.task is not None
    answered = solved(folder, task_text("permutations", recipe.task.options, 18), progress=False)
    last = found.sel(seed=0, step=40)
    three = answered["solved"].values[answered["steps"].values == 3]
    assert float(last["accuracy"].sel(steps=3)) == pytest.approx(three.mean())


def test_slopes_are_least_squares_over_problems_that_differ(found: xr.Dataset, folder: Path) -> None:
    value = readings(bathyscope.open(folder.parent / "out/runs/seed-0-step-40")).sel(reading="lens_prediction")
    made = task("permutations", factors=(1, 3), beyond=(4, 4), elements="generators", answer="image")
    asked = [made.problem(index, 0, "interpolate").question for index in range(18)]
    new = [question not in asked[:index] for index, question in enumerate(asked)]
    own = value.isel(prompt=new)
    columns = np.column_stack([own["moves"].values, own["steps"].values[:, None] == np.array([1, 2, 3])]).astype(float)
    slope = np.linalg.lstsq(columns, own.values, rcond=None)[0][0]
    cell = found.sel(seed=0, step=40, reading="lens_prediction")
    assert float(cell["moves_slope"]) == pytest.approx(slope)
    assert float(cell["depth"]) == pytest.approx(float(own.mean()))
    assert float(cell["moves_low"]) < slope < float(cell["moves_high"])


def test_rows_and_figure_hold_every_step(found: xr.Dataset) -> None:
    rows = rows_of(found)
    assert [row["step"] for row in rows] == [0, 40]
    assert rows[1]["accuracy"] == pytest.approx(float(found["accuracy"].sel(step=40).mean()))
    axes = draw(found).axes
    assert {ax.get_xlabel() for ax in axes} == {"training step"}
    np.testing.assert_allclose(axes[1].lines[1].get_ydata(), found["moves_slope"].isel(seed=0, reading=0))


def test_seeds_together_have_students_interval(found: xr.Dataset) -> None:
    """Three made-up trainings that differ by known amounts from the one that was read."""
    assert mean_rows(found) == []
    shifts = (-0.1, 0.0, 0.4)
    others = [(found[["accuracy", "moves_slope"]] + by).assign_coords(seed=[n]) for n, by in enumerate(shifts)]
    rows = mean_rows(xr.concat(others, "seed"))
    assert [row["step"] for row in rows] == [0, 40]
    slope = float(found["moves_slope"].sel(seed=0, step=40, reading="erasure"))
    wanted = stats.ttest_1samp(slope + np.array(shifts), 0).confidence_interval(0.95)
    assert rows[1]["erasure_moves_slope_mean"] == pytest.approx(slope + 0.1)
    assert rows[1]["erasure_moves_slope_mean_low"] == pytest.approx(wanted.low)
    assert rows[1]["erasure_moves_slope_mean_high"] == pytest.approx(wanted.high)
    accuracy = float(found["accuracy"].sel(step=0).mean())
    assert rows[0]["accuracy_mean"] == pytest.approx(accuracy + 0.1)


def test_a_training_without_kept_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"weights of 0 steps of its training, two are needed; .*saving\.keep"):
        kept_steps(tmp_path)


def test_models_of_other_recipes_are_refused(folder: Path, recipe: Recipe, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "recipe.yaml").write_text(recipe.to_yaml())
    with pytest.raises(OptionError, match="have the same seed"):
        course([folder, other], tmp_path / "out", progress=False)
    (other / "recipe.yaml").write_text(replace(recipe, seed=1, loss="all").to_yaml())
    with pytest.raises(OptionError, match="recipes differ in loss"):
        course([folder, other], tmp_path / "out", progress=False)

"""The models of permutations that the repository keeps: their recipes, and how many steps each solves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bathyscope_lab.recipes import read_recipe

import bathyscope
from bathyscope import solved
from studies.common.problems import task_text

KEPT = Path(__file__).parents[3] / "checkpoints"
DEPTHS = (2, 8, 12)
PROBLEMS = 400


def told(blocks: int) -> float:
    """Share of held-out problems of 1 to 8 steps with an exact answer, as the folder says."""
    summary = json.loads((KEPT / f"permutations_{blocks}" / "training.json").read_text(encoding="utf-8"))
    return float(summary["held_out"]["interpolate_accuracy"])


@pytest.mark.parametrize("blocks", DEPTHS)
def test_a_model_is_made_by_the_recipe(blocks: int) -> None:
    changes = [f"model.num_hidden_layers={blocks}", "compile=true", "saving.dtype=bfloat16"]
    assert read_recipe(KEPT / f"permutations_{blocks}" / "recipe.yaml") == read_recipe("permutations", changes)


@pytest.mark.parametrize("blocks", DEPTHS)
def test_a_model_solves_what_its_folder_says(blocks: int) -> None:
    task = read_recipe("permutations").task
    assert task is not None
    prompts = task_text(task.name, task.options, PROBLEMS)
    found = solved(bathyscope.load(KEPT / f"permutations_{blocks}"), prompts, progress=False)
    right = found["solved"].groupby(found["steps"]).mean()
    assert right.sel(steps=1) == 1
    # five standard deviations of a share at even odds
    assert float(found["solved"].mean()) == pytest.approx(told(blocks), abs=5 * 0.5 / PROBLEMS**0.5)


def test_deeper_models_solve_more() -> None:
    assert told(2) < told(8) < told(12)

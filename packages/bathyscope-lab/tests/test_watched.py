"""A training of the laboratory under bathyscope's callback: the same to the bit, with the depths in its metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from bathyscope_lab.train import train
from safetensors.torch import load_file

import bathyscope
from bathyscope.training import DepthCallback


def test_the_laboratory_trains_the_same_under_the_callback(task_recipe: Any, tmp_path: Path) -> None:
    recipe = task_recipe()
    prompts = [[5, 3, 9, 4, 7, 6, 8, 3, 5, 9, 4, 6, 7, 8], [4, 4, 6, 5, 8, 3, 7, 9, 5, 6, 4, 3, 8, 7]]
    every = max(1, recipe.total_steps // 3)
    callback = DepthCallback(prompts, every, tmp_path / "course", progress=False)
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    train(recipe, plain, device="cpu", progress=False)
    train(recipe, watched, device="cpu", progress=False, callbacks=[callback])
    before, after = (load_file(folder / "model.safetensors") for folder in (plain, watched))
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    records = [
        [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (plain, watched)
    ]
    depths = [record for record in records[1] if "depth/readable" in record]
    assert [record for record in records[1] if record not in depths] == records[0]
    course = bathyscope.open(tmp_path / "course")
    assert [record["step"] for record in depths] == course.step.values.tolist()
    assert [record["depth/readable"] for record in depths] == course.readable.values.tolist()

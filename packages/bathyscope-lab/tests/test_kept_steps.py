"""Weights that a training keeps on its way are those of the steps it names, and change nothing of what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from bathyscope_lab.data import prepare
from bathyscope_lab.folder import RunFolder
from bathyscope_lab.train import Trained, train
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope.errors import OptionError

KEEP = {"every": 7, "keep": [0, 5, 20]}


@pytest.fixture(scope="module")
def kept(task_recipe: Any, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(task_recipe(saving=KEEP), tmp_path_factory.mktemp("runs") / "kept", device="cpu", progress=False)


def test_each_gives_the_loss_that_was_logged_at_the_next_step(kept: Trained, task_recipe: Any, tmp_path: Path) -> None:
    folder = RunFolder(kept.folder, task_recipe(saving=KEEP))
    logged = {record["step"]: record["loss"] for record in folder.metrics() if "loss" in record}
    steps = prepare(RunFolder(tmp_path, folder.recipe), None).steps
    for step in (0, 5):
        model = AutoModelForCausalLM.from_pretrained(kept.folder / f"steps/step-{step:07d}", dtype=torch.float32)
        with torch.no_grad():
            assert float(model(**steps[step]).loss) == pytest.approx(logged[step + 1], rel=1e-5)
    assert logged[1] != pytest.approx(logged[6], rel=1e-2)


def test_the_last_is_the_finished_model_and_all_can_be_measured(kept: Trained) -> None:
    last, finished = (load_file(kept.folder / name / "model.safetensors") for name in ("steps/step-0000020", "."))
    assert last.keys() == finished.keys()
    assert all(torch.equal(last[name], tensor) for name, tensor in finished.items())
    run = bathyscope.survey(kept.folder / "steps/step-0000005", "task:pointer_chasing:2", "residual", progress=False)
    assert run["residual"].sizes["prompt"] == 2


def test_keeping_is_no_other_recipe(kept: Trained, task_recipe: Any) -> None:
    plain = task_recipe()
    assert plain.hash() == task_recipe(saving=KEEP).hash() != task_recipe(saving={"dtype": "bfloat16"}).hash()
    trained_by = (kept.folder / "recipe.yaml").read_text(encoding="utf-8")
    again = train(plain, kept.folder, device="cpu", progress=False)
    assert again.summary == kept.summary
    assert (kept.folder / "recipe.yaml").read_text(encoding="utf-8") == trained_by != plain.to_yaml()


def test_a_run_that_keeps_nothing_ends_with_the_same_weights(kept: Trained, task_recipe: Any, tmp_path: Path) -> None:
    plain = train(task_recipe(), tmp_path / "plain", device="cpu", progress=False)
    assert not (plain.folder / "steps").exists()
    given, expected = (load_file(one.folder / "model.safetensors") for one in (kept, plain))
    assert all(torch.equal(given[name], tensor) for name, tensor in expected.items())


def test_steps_before_the_first_are_refused(task_recipe: Any) -> None:
    with pytest.raises(OptionError, match=r"keep=\(-1,\) is not allowed; give whole numbers from 0 on"):
        task_recipe(saving={"keep": [-1]})


def test_a_step_behind_the_last_is_refused_before_any_training(task_recipe: Any) -> None:
    last = task_recipe().total_steps
    assert task_recipe(saving={"keep": [last]}).saving.keep == (last,)
    with pytest.raises(OptionError, match=f"saving: keep={last + 1} is behind the last step, {last}; give steps up to"):
        task_recipe(saving={"keep": [0, last + 1]})

"""What diverges is neither logged nor saved nor exported, and the last good checkpoint stays."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from bathyscope_lab import checkpoint, export
from bathyscope_lab.train import train
from bathyscope_lab.trainer import LabTrainer
from safetensors.torch import load_file

from bathyscope.errors import ModelError

KEPT = r"\. Lower optimisation\.learning_rate.* needs a new folder \(--out\)\. The last checkpoint before, {}, is kept"
EVERY_STEP: dict[str, Any] = {"saving": {"every": 1}, "optimisation": {"learning_rate": 1e-3}, "budget": {"steps": 8}}


def assert_ended_well(folder: Path, step: int) -> None:
    """The run stopped after ``step``, whose checkpoint is whole and finite, and nothing says NaN or was exported."""
    assert checkpoint.latest(folder / "checkpoints") == folder / "checkpoints" / f"step-{step:07d}"
    for path in (folder / "checkpoints").iterdir():
        assert all(bool(tensor.isfinite().all()) for tensor in load_file(path / "model.safetensors").values())
    text = (folder / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text.splitlines()[-1])["step"] == step
    assert not list(folder.glob("*.safetensors"))
    assert not (folder / "training.json").exists()


def test_a_loss_that_is_not_finite_ends_the_run(
    task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_step(monkeypatch, 5, lambda given: {**given, "loss": math.nan})
    where = tmp_path / "checkpoints" / "step-0000004"
    with pytest.raises(ModelError, match=r"The loss is nan at step 5: training has diverged" + KEPT.format(where)):
        train(task_recipe(**EVERY_STEP), tmp_path, device="cpu", progress=False)
    assert_ended_well(tmp_path, 4)


def at_step(monkeypatch: pytest.MonkeyPatch, step: int, changed: Any) -> None:
    """Changes what the library reports of one step."""
    log = LabTrainer.log

    def altered(self: LabTrainer, logs: dict[str, float], start_time: float | None = None) -> None:
        log(self, changed(logs) if self.state.global_step == step else logs, start_time)

    monkeypatch.setattr(LabTrainer, "log", altered)


@pytest.mark.parametrize(
    ("step", "bad"),
    [
        (5, math.inf),
        (8, math.nan),
        pytest.param(5, math.nan, marks=pytest.mark.thorough),
        pytest.param(8, math.inf, marks=pytest.mark.thorough),
    ],
)
def test_a_gradient_that_is_not_finite_ends_the_run_before_its_step_is_saved(
    step: int, bad: float, task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is finite at that step, and the weights are not after it; at the last step no other one would tell."""
    clip = LabTrainer._clip_grad_norm

    def spoiled(self: LabTrainer, model: torch.nn.Module) -> Any:
        if self.state.global_step == step - 1:
            next(iter(model.parameters())).grad[0, 0] = bad
        return clip(self, model)

    monkeypatch.setattr(LabTrainer, "_clip_grad_norm", spoiled)
    where = tmp_path / "checkpoints" / f"step-{step - 1:07d}"
    message = rf"The gradient norm is {bad} at step {step}: training has diverged" + KEPT.format(where)
    for _ in range(2):  # the same call comes to the same end, and does no harm
        with pytest.raises(ModelError, match=message):
            train(task_recipe(**EVERY_STEP), tmp_path, device="cpu", progress=False)
        assert_ended_well(tmp_path, step - 1)


def test_weights_that_are_not_finite_are_not_saved(
    task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_weights(monkeypatch, step=5)
    message = rf"weight is not finite after step 5: training has diverged.*{tmp_path}/checkpoints/step-0000004, is kept"
    with pytest.raises(ModelError, match=message):
        train(task_recipe(**EVERY_STEP), tmp_path, device="cpu", progress=False)
    assert checkpoint.latest(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "step-0000004"


def spoil_weights(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Makes one weight infinite after a step whose loss and gradient are fine."""
    log = LabTrainer.log

    def spoiling(self: LabTrainer, logs: dict[str, float], start_time: float | None = None) -> None:
        log(self, logs, start_time)
        if self.state.global_step == step:
            with torch.no_grad():
                next(iter(self.model.parameters()))[0, 0] = math.inf

    monkeypatch.setattr(LabTrainer, "log", spoiling)


def test_a_held_out_loss_that_is_not_finite_ends_the_run(
    task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_weights(monkeypatch, step=10)  # evaluated at 10
    message = r"The held-out interpolate loss is nan at step 10: training has diverged.*step-0000007, is kept"
    with pytest.raises(ModelError, match=message):
        train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()
    assert checkpoint.latest(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "step-0000007"


def test_weights_that_are_not_finite_are_not_exported(
    task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = LabTrainer.train

    def spoiling(self: LabTrainer, **given: Any) -> None:
        loop(self, **given)
        with torch.no_grad():
            next(iter(self.model.parameters()))[0, 0] = math.nan

    monkeypatch.setattr(LabTrainer, "train", spoiling)
    with pytest.raises(
        ModelError, match=r"weight is not finite in float32: training has diverged.*step-0000020, is kept"
    ):
        train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert_ended_well(tmp_path, 20)


def test_scores_that_are_not_finite_are_not_exported(
    task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights may be finite and yet too large to compute with."""
    monkeypatch.setattr(export, "saved_scores", lambda *_: {"interpolate_loss": math.nan})
    with pytest.raises(ModelError, match=r"The interpolate loss of the last weights is nan: .*step-0000020, is kept"):
        train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert_ended_well(tmp_path, 20)

"""The callback and the watch: trainings are the same to the bit without them, and every number is the survey's."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import zoo
from torch import nn
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

import bathyscope
from bathyscope.errors import ModelError, OptionError, StoreError
from bathyscope.surveying.training import watch as watching
from bathyscope.surveying.training.twin import twin_of
from bathyscope.training import DepthCallback

STEPS = 6
PROMPTS = [
    [5, 9, 7, 30, 44, 12, 8, 17, 3, 28, 51, 6, 19, 40, 2, 33],
    [3, 8, 1, 22, 40, 2, 5, 61, 9, 9, 14, 7, 2, 25, 48],
]


class Rows(torch.utils.data.Dataset[dict[str, list[int]]]):
    def __init__(self) -> None:
        generator = random.Random(0)
        self._rows = [[generator.randrange(2, 60) for _ in range(10)] for _ in range(64)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return {"input_ids": self._rows[index], "labels": self._rows[index]}


def model(name: str = "gpt2", *, dropout: bool = False) -> PreTrainedModel:
    torch.manual_seed(1)
    hf = zoo.entry(name).build()
    for module in hf.modules():
        if isinstance(module, nn.Dropout) and dropout:
            module.p = 0.1
    return hf


def trained(
    out: Path, *callbacks: TrainerCallback, hf: nn.Module | None = None, steps: int = STEPS, **arguments: Any
) -> tuple[Trainer, dict[str, Any]]:
    """A short training, and everything that a callback could have changed."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 3,
        **arguments,
    }
    trainer = Trainer(
        model() if hf is None else hf,
        TrainingArguments(str(out), max_steps=steps, **settings),
        train_dataset=Rows(),
        callbacks=list(callbacks),
    )
    trainer.train()
    assert trainer.optimizer is not None
    return trainer, {
        "loss": [row["loss"] for row in trainer.state.log_history if "loss" in row],
        "weights": {name: value.clone() for name, value in trainer.model.state_dict().items()},
        "optimiser": trainer.optimizer.state_dict()["state"],
        "random": (random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist()),
        "modes": {name: module.training for name, module in trainer.model.named_modules()},
        "learning": {name: p.requires_grad for name, p in trainer.model.named_parameters()},
        "hooks": {name: len(module._forward_hooks) for name, module in trainer.model.named_modules()},
    }


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name in expected:
            assert_same(found[name], expected[name], f"{where}.{name}")
    else:
        assert found == expected, where


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulating": {"gradient_accumulation_steps": 2},
    "checkpointing": {"gradient_checkpointing": True},
    "bf16": {"bf16": True},
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.parametrize("way", [*WAYS, "dropout"])
def test_a_training_is_the_same_to_the_bit_with_and_without(way: str, tmp_path: Path) -> None:
    arguments = WAYS.get(way, {})
    _, plain = trained(tmp_path / "plain", hf=model(dropout=way == "dropout"), **arguments)
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", max_share=1e9, measures=["lens"])
    trainer, watched = trained(tmp_path / "watched", callback, hf=model(dropout=way == "dropout"), **arguments)
    assert_same(watched, plain)
    assert [row["step"] for row in trainer.state.log_history if "depth/readable" in row] == [0, 3, 6]


def test_adapters_are_watched_with_the_model_that_they_change(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")

    def adapted() -> nn.Module:
        config = peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
        torch.manual_seed(2)
        wrapped: nn.Module = peft.get_peft_model(model(), config)
        return wrapped

    _, plain = trained(tmp_path / "plain", hf=adapted(), learning_rate=0.1)
    callback = DepthCallback(PROMPTS, every=3, out=tmp_path / "course", max_share=1e9, measures=["lens"])
    trainer, watched = trained(tmp_path / "watched", callback, hf=adapted(), learning_rate=0.1)
    assert_same(watched, plain)
    first, *_, last = (row for row in trainer.state.log_history if "depth/readable" in row)
    assert last["step"] == 6
    assert first["depth/readable"] != last["depth/readable"]


def test_a_survey_that_fails_leaves_the_training_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, plain = trained(tmp_path / "plain")

    def fail(run: object) -> dict[str, float]:
        torch.rand(3)
        raise RuntimeError("in the middle")

    monkeypatch.setattr(watching, "depths_of", fail)
    with pytest.warns(
        UserWarning, match=r"The survey at step 0 failed, and the training goes on: RuntimeError: in the"
    ):
        _, watched = trained(tmp_path / "w", DepthCallback(PROMPTS, every=2, out=tmp_path / "course", max_share=1e9))
    assert_same(watched, plain)


class Saving(TrainerCallback):
    """Keeps the weights of a step, as a checkpoint of it would."""

    def __init__(self, step: int, to: Path) -> None:
        self._step, self._to = step, to

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            kwargs["model"].save_pretrained(self._to)


def test_numbers_are_those_of_the_saved_step(tmp_path: Path) -> None:
    callback = DepthCallback(PROMPTS, every=2, out=tmp_path / "course", max_share=1e9)
    trainer, _ = trained(tmp_path / "t", callback, Saving(4, tmp_path / "saved"))
    watched = bathyscope.open(tmp_path / "course" / "step-00000004")
    offline = bathyscope.survey(tmp_path / "saved", PROMPTS, ["lens", "skip", "drop"], progress=False)
    for measure in ("lens", "skip", "drop"):
        for name, values in offline[measure].data_vars.items():
            np.testing.assert_array_equal(watched[measure][name], values, f"{measure}.{name}")
    row = next(row for row in trainer.state.log_history if row["step"] == 4 and "depth/own" in row)
    assert {"depth/readable", "depth/own", "depth/later", "depth/idle_blocks", "depth/seconds"} <= row.keys()
    assert row["depth/own"] == offline.verdict.own.value
    assert row["depth/readable"] == offline.verdict.readable.value


def test_a_training_that_goes_on_continues_the_course(tmp_path: Path) -> None:
    def callback() -> DepthCallback:
        return DepthCallback(PROMPTS, every=2, out=tmp_path / "course", max_share=1e9)

    saving = {"save_strategy": "steps", "save_steps": 4}
    trained(tmp_path / "t", callback(), steps=4, **saving)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    trainer = Trainer(
        model(),
        TrainingArguments(
            str(tmp_path / "t"),
            max_steps=STEPS,
            per_device_train_batch_size=4,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            seed=3,
        ),
        train_dataset=Rows(),
        callbacks=[callback()],
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "t" / "checkpoint-4"))
    found = bathyscope.open_course(tmp_path / "course")
    assert found.step.values.tolist() == [0, 2, 4, 6]
    assert np.isfinite(found.readable).all()
    assert found.added_loss.dims == ("step", "block")


def test_a_loop_of_ones_own_is_watched(tmp_path: Path) -> None:
    hf = model().train()
    watch = bathyscope.watch(hf, PROMPTS, out=tmp_path / "course", every=2, max_share=1e9)
    assert watch(1) == {}
    state = torch.random.get_rng_state()
    values = watch(2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert hf.training
    assert all(p.requires_grad for p in hf.parameters())
    assert (
        values["depth/own"] == bathyscope.survey(hf.eval(), PROMPTS, ["lens", "skip"], progress=False).verdict.own.value
    )


def test_costly_surveys_are_thinned_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 s between steps a survey of 20 s may take 5; every fifth is enough."""
    clock = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    watch = bathyscope.watch(model(), PROMPTS, out=tmp_path / "course", every=1, max_share=0.05)

    def survey(step: int) -> Any:
        clock[0] += 20.0

    monkeypatch.setattr(watch, "_survey", survey)
    monkeypatch.setattr(watching, "depths_of", lambda run: {"depth/own": 1.0})

    def survey_if_due(step: int) -> bool:
        values = watch(step)
        clock[0] += 100.0
        return bool(values)

    with pytest.warns(UserWarning, match=r"A survey takes 20 s, more than 5% of the 100 s of training since the last"):
        steps = [step for step in range(12) if survey_if_due(step)]
    assert steps == [0, 4, 8]


class Wrapping(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def test_twins_share_weights_and_nothing_else() -> None:
    hf = model().train()
    hf.transformer.h[0].register_forward_hook(lambda *_: None)
    hf.forward = lambda *_: None  # as mixed precision does
    twin = twin_of(Wrapping(hf))
    assert {id(p) for p in twin.parameters()} == {id(p) for p in hf.parameters()}
    assert {id(m) for m in twin.modules()}.isdisjoint(id(m) for m in hf.modules())
    assert not twin.training
    assert hf.training
    assert not any(module._forward_hooks for module in twin.modules())
    assert "forward" not in twin.__dict__
    assert torch.isfinite(twin(torch.tensor([[1, 2, 3]])).logits).all()
    compiled = twin_of(torch.compile(model()))
    assert isinstance(compiled, PreTrainedModel)


class FSDPModel(nn.Module):
    pass


def test_what_cannot_be_watched_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"scattered over processes .* Survey its checkpoints instead"):
        bathyscope.watch(FSDPModel(), PROMPTS, out=tmp_path / "c")
    with pytest.raises(ModelError, match=r"Linear is no model of transformers, nor does it wrap one"):
        bathyscope.watch(nn.Linear(2, 2), PROMPTS, out=tmp_path / "c")
    with pytest.raises(OptionError, match=r"every=0 is out of range"):
        bathyscope.watch(model(), PROMPTS, out=tmp_path / "c", every=0)
    bathyscope.watch(model(), PROMPTS, out=tmp_path / "c")
    # prompts that begin alike are others all the same
    long = [list(range(2, 60))] * 5
    bathyscope.watch(model(), long, out=tmp_path / "long")
    with pytest.raises(StoreError, match=r"holds the course of another training \(prompts differ\)"):
        bathyscope.watch(model(), [*long[:-1], PROMPTS[0]], out=tmp_path / "long")
    with pytest.raises(StoreError, match=r"holds the course of another training \(shape differ\)"):
        bathyscope.watch(model("llama"), PROMPTS, out=tmp_path / "c")

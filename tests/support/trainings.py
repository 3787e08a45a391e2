"""Short trainings of tiny models, and everything that a callback could have changed in them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support import zoo
from torch import nn
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

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
    out: Path,
    *callbacks: TrainerCallback,
    hf: nn.Module | None = None,
    steps: int = STEPS,
    data: Any = None,
    resume: Path | None = None,
    **arguments: Any,
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
        train_dataset=Rows() if data is None else data,
        callbacks=list(callbacks),
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
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


def plain_loop(hf: PreTrainedModel, watch: Any = None, steps: int = 4) -> dict[str, Any]:
    """Train by a loop without a Trainer, with dropout; ``watch`` is called before each step and behind the last."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    hf.train()
    optimiser = torch.optim.AdamW(hf.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        if watch is not None:
            watch(step)
        ids = torch.tensor([random.sample(range(2, 60), 10) for _ in range(4)])
        # A gradient that is half accumulated when the model is surveyed has to stay what it is.
        first, second = (hf(rows, labels=rows).loss for rows in ids.split(2))
        first.backward()
        if watch is not None:
            watch(step)
        second.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(first) + float(second))
    if watch is not None:
        watch(steps)
    return {
        "loss": losses,
        "weights": {name: value.clone() for name, value in hf.state_dict().items()},
        "optimiser": optimiser.state_dict()["state"],
        "random": (random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist()),
        "modes": {name: module.training for name, module in hf.named_modules()},
        "learning": {name: p.requires_grad for name, p in hf.named_parameters()},
        "gradients": [p.grad is None for p in hf.parameters()],
    }

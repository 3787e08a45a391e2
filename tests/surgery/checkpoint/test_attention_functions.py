"""A function that somebody has registered to attend with is in no checkpoint, so that no such model is exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import zoo
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import bathyscope
from bathyscope import ModelError

LIBRARYS = ALL_ATTENTION_FUNCTIONS["sdpa"]
PROMPTS = [[5 + step * n % 90 for step in range(1, 14)] for n in range(1, 7)]
JUDGES = [[4 + step * n % 90 for step in range(1, 14)] for n in range(7, 11)]


def louder(*args: Any, **kwargs: Any) -> Any:
    out, *rest = LIBRARYS(*args, **kwargs)
    return (out * 1.7, *rest)


@pytest.fixture(params=["sdpa", "mine"])
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name of the library's, or one of somebody's own, that stands for another function."""
    ALL_ATTENTION_FUNCTIONS[request.param] = louder
    yield request.param
    # what a module registered stands in front of what all of them have
    del ALL_ATTENTION_FUNCTIONS[request.param]


def attending_by(name: str) -> Any:
    hf: Any = zoo.entry("llama").build()
    hf.set_attn_implementation("sdpa")
    hf.config._attn_implementation = name
    return hf


def test_every_way_to_a_checkpoint_names_the_function(name: str, tmp_path: Path) -> None:
    hf = attending_by(name)
    refusal = rf"its attention function '{name}' is one that was registered in memory \(louder\), and no checkpoint"
    with pytest.raises(ModelError, match=refusal):
        bathyscope.export(hf, "drop:1", tmp_path / "export")
    with bathyscope.scheduled(hf, "drop:1") as running, pytest.raises(ModelError, match=refusal):
        running.save_pretrained(tmp_path / "saved")
    with pytest.raises(ModelError, match=refusal):
        bathyscope.repair(hf, "drop:1", PROMPTS, test=JUDGES, how="linear", progress=False)
    assert not any(tmp_path.iterdir())
    hf.set_attn_implementation("eager")
    bathyscope.export(hf, "drop:1", tmp_path / "export")


@pytest.mark.parametrize("schedule", ["drop:1", "swap:2"])
def test_another_order_in_memory_attends_by_the_same_function(name: str, schedule: str) -> None:
    hf = attending_by(name)
    run = bathyscope.survey(hf, PROMPTS, ["drop"], schedule=schedule, progress=False)
    with bathyscope.scheduled(hf, schedule) as running, torch.no_grad():
        losses = [
            float(torch.nn.functional.cross_entropy(running(ids).logits[0, :-1], ids[0, 1:]))
            for ids in (torch.tensor([prompt]) for prompt in PROMPTS)
        ]
    assert run["drop"].baseline_loss.values == pytest.approx(losses, rel=1e-4)

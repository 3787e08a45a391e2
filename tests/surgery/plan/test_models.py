"""A plan, a repair and an evaluation are of one model: exports, benchmarks and repairs of another one are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model.identity import ModelIdentity, compare_models, identity_of
from bathyscope.surgery.order.model_of_plan import require_same_model
from bathyscope.surgery.repairing.healing import _is_same_training

PROMPTS = [[(7 * i + 11 * j + i * j) % 60 for i in range(12)] for j in range(12)]
THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}


def tiny(**changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(5)
    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3, "eos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **heads, **changes})).eval()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> bathyscope.Plan:
    folder = tmp_path_factory.mktemp("plan") / "plan"
    bathyscope.prune(tiny(), PROMPTS[:6], PROMPTS[6:], drop=1, resamples=50, out=folder, progress=False)
    return bathyscope.open_plan(folder)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_plan_is_of_one_model(plan: bathyscope.Plan, tmp_path: Path) -> None:
    assert compare_models(ModelIdentity.of_record(plan.data.attrs), identity_of(bathyscope.load(tiny()))).same
    assert bathyscope.export(tiny(), plan, tmp_path / "same").is_dir()
    with pytest.raises(ModelError, match=r"other settings now than when .* was chosen.*configuration: the plan has"):
        bathyscope.export(tiny(**THETA), plan, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(ModelError, match=r"configuration: the plan has"):
        bathyscope.repair(tiny(**THETA), plan, PROMPTS[:6], test=PROMPTS[6:], how="scale", progress=False)
    with pytest.raises(ModelError, match=r"configuration: the plan has"):
        bathyscope.evaluate(tiny(**THETA), ["arc_easy"], [plan])
    with pytest.raises(ModelError, match=r"configuration: the plan has"):
        bathyscope.survey(tiny(**THETA), PROMPTS[:2], ["lens"], schedule=plan, progress=False)
    with pytest.raises(ModelError, match=r"configuration: the plan has"), bathyscope.scheduled(tiny(**THETA), plan):
        raise AssertionError("another model runs the plan")


def test_a_plan_is_of_one_state_of_the_adapters() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny(), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    made = bathyscope.prune(model, PROMPTS[:6], PROMPTS[6:], drop=1, resamples=50, progress=False)
    assert made.record()["model"]["adapters"] == "default active"
    assert require_same_model(made, bathyscope.load(model)) is not None
    with (
        model.disable_adapter(),
        pytest.raises(ModelError, match="adapters: the plan has default active, this model default disabled"),
    ):
        require_same_model(made, bathyscope.load(model))


def test_a_plan_of_an_earlier_version_tells_less(plan: bathyscope.Plan) -> None:
    attrs = {name: value for name, value in plan.data.attrs.items() if name != "config_hash"}
    old = replace(plan, data=plan.data.drop_attrs().assign_attrs(attrs))
    assert require_same_model(old, bathyscope.load(tiny(**THETA))) is not None
    without = {name: value for name, value in attrs.items() if name != "weight_hash"}
    assert require_same_model(replace(plan, data=old.data.drop_attrs().assign_attrs(without)), tiny()) is None


def test_the_state_of_a_training_of_an_earlier_version_is_gone_on_from() -> None:
    now = '{"configuration": "b", "rate": 0.1, "weights": "a"}'
    assert _is_same_training(now, now)
    assert _is_same_training('{"rate": 0.1, "weights": "a"}', now)
    assert not _is_same_training('{"configuration": "c", "rate": 0.1, "weights": "a"}', now)
    assert not _is_same_training('{"rate": 0.2, "weights": "a"}', now)
    assert not _is_same_training(None, now)

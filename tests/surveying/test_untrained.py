"""The untrained control has the shape of the model in hand, whatever its configuration says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import edited, zoo
from torch import nn
from transformers import LlamaForCausalLM

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.surveying.controls import Control, untrained

Edit = Callable[[LlamaForCausalLM], None]
_ELSEWHERE = ("training", "name_or_path", "vocab_size")
"""Switches, and a length that the library itself leaves behind when it resizes a table."""


def shapes(hf: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in hf.named_parameters()}


def kinds(hf: nn.Module) -> list[tuple[str, str]]:
    return [(path, type(module).__name__) for path, module in hf.named_modules()]


def constants(hf: nn.Module) -> dict[str, Any]:
    plain = (bool, int, float, str, type(None))
    return {
        f"{path}.{key}": value
        for path, module in hf.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, plain) and not key.startswith("_") and key not in _ELSEWHERE
    }


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(edited.EDITS), max_size=3, unique=True).filter(
        lambda edits: len(edited.SHORTENING & set(edits)) < 2
    ),
    st.integers(0, 2),
)
def test_a_control_has_names_shapes_and_kinds_of_whatever_model_is_in_hand(edits: Sequence[Edit], seed: int) -> None:
    model = bathyscope.load(edited.edited(edits))
    unknown = any(type(module) is edited.Scaled for module in model.hf.modules())
    if unknown:
        with pytest.raises(ModelError, match=r"cannot be made of this LlamaForCausalLM: nothing initialises .*gain"):
            Control("untrained", seed).require(model)
        return
    Control("untrained", seed).require(model)
    control = untrained(model, seed)
    assert control.n_blocks == model.n_blocks == len(model.hf.model.layers)
    assert shapes(control.hf) == shapes(model.hf)
    assert kinds(control.hf) == kinds(model.hf)
    assert constants(control.hf) == constants(model.hf)
    assert all(value.isfinite().all() for value in control.hf.parameters())
    own_addresses = {value.data_ptr() for value in model.hf.parameters()}
    assert not own_addresses & {value.data_ptr() for value in control.hf.parameters()}
    weights, fresh = model.hf.model.layers[0].state_dict(), control.hf.model.layers[0].state_dict()
    assert all(not torch.equal(weights[name], fresh[name]) for name in weights if name.endswith("proj.weight"))


SAID: dict[str, object] = {
    "rms_norm_eps": 0.5,
    "hidden_act": "relu",
    "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0},
    "num_key_value_heads": 4,
    "attention_bias": True,
}
"""Settings as somebody writes them into a configuration after its model was made, whose modules keep what they had."""


@settings(max_examples=12, deadline=None)
@given(st.sets(st.sampled_from(sorted(SAID)), min_size=1))
def test_what_is_said_in_a_configuration_alone_is_in_no_control(entries: set[str]) -> None:
    model = bathyscope.load(edited.tiny(2))
    for entry in entries:
        setattr(model.hf.config, entry, SAID[entry])
    control = untrained(model, 0)
    control.hf.load_state_dict(model.hf.state_dict())
    ids = torch.tensor([[7, 9, 11, 13, 15, 17]])
    with torch.no_grad():
        logits = [hf(ids, use_cache=False).logits for hf in (control.hf, model.hf)]
    torch.testing.assert_close(*logits, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("edit", [edited.sliced, edited.narrowed])
def test_a_verdict_speaks_of_models_of_this_shape_where_they_are(edit: Edit) -> None:
    model = bathyscope.load(edited.edited([edit]))
    prompts = [[(7 * prompt + 3 * place) % 60 + 1 for place in range(9)] for prompt in range(8)]
    run = bathyscope.survey(model, prompts, ["lens", "skip"], control="untrained:3", progress=False)
    assert "of this shape" in run.verdict.text
    assert [control.n_blocks for control in run.controls.values()] == [run.n_blocks] * 3


def test_controls_of_one_seed_are_one_model_and_of_two_are_two() -> None:
    model = bathyscope.load(edited.edited([edited.narrowed]))
    first, again, other = (untrained(model, seed).weight_hash for seed in (0, 0, 1))
    assert first == again != other


def test_initialised_weights_spread_as_the_configuration_says() -> None:
    model = bathyscope.load(edited.edited([edited.sliced, edited.narrowed]))
    control = untrained(model, 0).hf
    spreads = [float(value.std()) for name, value in control.named_parameters() if name.endswith("proj.weight")]
    assert spreads == pytest.approx([0.3] * len(spreads), rel=0.15)
    norms = [value for name, value in control.named_parameters() if "norm" in name]
    assert all(bool((value == 1).all()) for value in norms)


def test_adapters_are_left_out_of_a_control() -> None:
    peft = pytest.importorskip("peft")
    plain = edited.tiny(3)
    expected = shapes(plain)
    lora = peft.LoraConfig(r=2, target_modules=["q_proj", "lm_head"], init_lora_weights=False)
    control = untrained(bathyscope.load(peft.get_peft_model(plain, lora)), 0)
    assert shapes(control.hf) == expected
    sliced = edited.edited([edited.sliced])
    expected = shapes(sliced)
    model = bathyscope.load(peft.get_peft_model(sliced, lora))
    assert shapes(untrained(model, 0).hf) == expected


def test_blocks_that_stand_twice_in_the_list_share_their_fresh_weights() -> None:
    hf = edited.tiny(3)
    hf.model.layers = nn.ModuleList([*hf.model.layers[:2], edited.PassThrough()])
    hf.model.layers[1].self_attn.q_proj.weight = hf.model.layers[0].self_attn.q_proj.weight
    control = untrained(bathyscope.load(hf), 0).hf
    assert control.model.layers[0].self_attn.q_proj.weight is control.model.layers[1].self_attn.q_proj.weight


def test_quantised_weights_are_refused_before_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = edited.tiny(2)
    model = bathyscope.load(hf)
    weight = nn.Parameter(torch.ones(4, dtype=torch.int8), requires_grad=False)
    hf.model.layers[0].self_attn.q_proj.register_parameter("codes", weight)
    with pytest.raises(ModelError) as caught:
        Control("untrained", 0).require(model)
    assert str(caught.value) == (
        "The control untrained cannot be made of this LlamaForCausalLM: model.layers.0.self_attn.q_proj.codes is "
        "quantised (int8); give the model before it was quantised. Or take the control shuffled_text."
    )


@pytest.mark.parametrize("name", zoo.swept(zoo.names(), frozenset({"llama", "gpt2", "mixtral", "deepseek_v3"})))
def test_changed_models_of_all_families_have_controls_of_their_shape(name: str) -> None:
    with zoo.entry(name).within():
        # not the one that tests share
        hf = zoo.entry(name).build()
        first = next(module for module in bathyscope.load(hf).anatomy.blocks[0].modules() if module._parameters)
        first.changed_by_hand = 3  # type: ignore[assignment]
        model = bathyscope.load(hf)
        Control("untrained", 0).require(model)
        control = untrained(model, 0).hf
        assert shapes(control) == shapes(hf)
        assert kinds(control) == kinds(hf)
        assert constants(control) == constants(hf)

"""The identity of a model: what differs is named, what is not told is unknown, and nothing else is looked at."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from support import zoo
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.model.identity import ModelIdentity, compare_models, identity_of

WHOLE = ModelIdentity("m", "a" * 64, "b" * 64, "", None, "float32", 4, "c" * 64)
hashes = st.sampled_from([None, "a" * 64, "b" * 64])
identities = st.builds(
    ModelIdentity,
    st.sampled_from(["m", "n"]),
    hashes,
    hashes,
    st.sampled_from([None, "", "default active"]),
    st.sampled_from([None, "drop:1"]),
    st.sampled_from([None, "float32", "bfloat16"]),
    st.sampled_from([None, 4, 6]),
    hashes,
)


@given(identities)
def test_every_model_is_itself_whatever_it_is_called(identity: ModelIdentity) -> None:
    agreement = compare_models(identity, replace(identity, name="elsewhere"))
    assert not agreement.differences
    assert agreement.same == (None not in (identity.weights, identity.configuration))


@given(identities, identities)
def test_both_ways_say_the_same(first: ModelIdentity, second: ModelIdentity) -> None:
    there, back = compare_models(first, second), compare_models(second, first)
    assert there.differences.keys() == back.differences.keys() or {
        *there.differences,
        *back.differences,
    } == {"configuration", "configuration or scaling of adapters"}
    assert there.unknown == back.unknown


@given(identities, identities)
def test_only_what_both_tell_can_differ_and_only_what_both_tell_can_agree(
    first: ModelIdentity, second: ModelIdentity
) -> None:
    agreement = compare_models(first, second)
    told = {
        "blocks": (first.n_blocks, second.n_blocks),
        "precision": (first.precision, second.precision),
        "weights": (first.weights, second.weights),
        "adapters": (first.adapters, second.adapters),
        "configuration": (first.configuration, second.configuration),
        "configuration or scaling of adapters": (first.configuration, second.configuration),
        "tokenizer": (first.tokenizer, second.tokenizer),
    }
    for aspect in agreement.differences.keys() - {"order of blocks"}:
        assert None not in told[aspect]
        assert told[aspect][0] != told[aspect][1]
    for aspect in ("blocks", "precision", "adapters", "tokenizer"):
        one, other = told[aspect]
        assert (aspect in agreement.differences) == (None not in (one, other) and one != other)
    if agreement.same:
        assert first.weights == second.weights is not None
        assert first.configuration == second.configuration is not None


@pytest.mark.parametrize(
    ("changes", "aspect", "line"),
    [
        ({"weights": "f" * 64}, "weights", "weights: the lens has aaaaaaaa, this model ffffffff"),
        ({"configuration": "f" * 64}, "configuration", "configuration: the lens has bbbbbbbb, this model ffffffff"),
        ({"adapters": "default active"}, "adapters", "adapters: the lens has none, this model default active"),
        ({"n_blocks": 6}, "blocks", "blocks: the lens has 4, this model 6"),
        ({"precision": "bfloat16"}, "precision", "precision: the lens has float32, this model bfloat16"),
        ({"tokenizer": "d" * 64}, "tokenizer", "tokenizer: the lens has cccccccc, this model dddddddd"),
    ],
)
def test_a_line_says_what_each_has(changes: dict[str, object], aspect: str, line: str) -> None:
    agreement = compare_models(WHOLE, replace(WHOLE, **changes), "the lens", "this model")  # type: ignore[arg-type]
    assert agreement.differences == {aspect: line}
    assert agreement.text == line


def test_weights_of_two_precisions_are_not_compared_and_equal_weights_decide_about_orders() -> None:
    converted = replace(WHOLE, weights="f" * 64, precision="bfloat16")
    assert compare_models(WHOLE, converted).differences.keys() == {"precision"}
    assert "weights" in compare_models(WHOLE, converted).unknown
    assert compare_models(WHOLE, replace(WHOLE, schedule="drop:1")).same
    unknown = replace(WHOLE, weights=None)
    assert compare_models(unknown, replace(unknown, schedule="drop:1")).differences.keys() == {"order of blocks"}


@given(identities)
def test_a_record_gives_the_identity_back(identity: ModelIdentity) -> None:
    """But for the tokenizer, which records of results have of their own, and for adapters that nothing tells."""
    told = replace(identity, tokenizer=None)
    if told.configuration is None and told.adapters == "":
        told = replace(told, adapters=None)
    if told.configuration is not None and told.adapters is None:
        told = replace(told, adapters="")
    assert ModelIdentity.of_record(told.record()) == told


def test_records_of_earlier_versions_tell_less() -> None:
    old = ModelIdentity.of_record({"model": "m", "weight_hash": "a" * 64, "dtype": "float32"})
    assert old == ModelIdentity("m", "a" * 64, precision="float32")
    agreement = compare_models(old, WHOLE)
    assert (agreement.differences, agreement.unknown, agreement.same) == ({}, ("configuration",), False)
    # an outline has no weights, and says so by an empty hash
    assert ModelIdentity.of_record({"model": "m", "weight_hash": ""}).weights is None


def tiny(**changes: object) -> LlamaForCausalLM:
    torch.manual_seed(5)
    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.3, "eos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **heads, **changes})).eval()  # type: ignore[arg-type]


def test_models_differ_in_weights_configuration_precision_and_depth() -> None:
    base = identity_of(bathyscope.load(tiny()))
    assert compare_models(base, identity_of(bathyscope.load(tiny()))).same
    moved = tiny()
    with torch.no_grad():
        moved.model.layers[1].mlp.down_proj.weight[0, 0] += 1
    others = {
        "weights": moved,
        "configuration": tiny(rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
        "precision": tiny().to(torch.bfloat16),
        "blocks": tiny(num_hidden_layers=3),
    }
    for aspect, hf in others.items():
        assert aspect in compare_models(base, identity_of(bathyscope.load(hf))).differences, aspect
    # which token pads changes no number
    later = tiny()
    later.config.pad_token_id = 3
    assert compare_models(base, identity_of(bathyscope.load(later))).same


@pytest.mark.parametrize("kind", ["lora", "ia3", "saved"])
def test_the_state_of_every_kind_of_adapter_counts(kind: str) -> None:
    peft = pytest.importorskip("peft")
    configs = {
        "lora": lambda: peft.LoraConfig(r=2, target_modules=["q_proj"]),
        "ia3": lambda: peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
        "saved": lambda: peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["lm_head"]),
    }
    model = peft.get_peft_model(tiny(), configs[kind]())
    on = identity_of(bathyscope.load(model))
    with model.disable_adapter():
        off = identity_of(bathyscope.load(model))
    assert (on.adapters, off.adapters) == ("default active", "default disabled")
    agreement = compare_models(on, off, "the lens", "this model")
    assert agreement.text == "adapters: the lens has default active, this model default disabled"
    assert on.configuration != off.configuration
    model.add_adapter("other", configs[kind]())
    model.set_adapter("other")
    assert "adapters" in compare_models(on, identity_of(bathyscope.load(model))).differences
    if kind == "lora":
        scaled = peft.get_peft_model(tiny(), configs[kind]())
        for module in scaled.modules():
            if isinstance(getattr(module, "scaling", None), dict):
                module.scaling["default"] *= 2
        named = compare_models(on, identity_of(bathyscope.load(scaled))).differences
        assert "configuration or scaling of adapters" in named


def test_an_outline_tells_no_weights() -> None:
    model = bathyscope.load(zoo.build("llama"))
    outline = replace(model, weight_hash="")
    assert identity_of(outline).weights is None

"""Constants that a model's configuration would make otherwise belong to its identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import zoo
from support.loaded_facts import from_disk
from torch import nn

import bathyscope
from bathyscope import ModelError, StoreError
from bathyscope.model import loaded, weight_hash
from bathyscope.model.weights import _named

IDS = [[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]]


def hash_of_weights(hf: nn.Module) -> str:
    """The hash that earlier versions gave a model: over its weights alone."""
    digests = []
    for name, value in _named(hf):
        digest = hashlib.sha256(json.dumps([name, list(value.shape), str(value.dtype)]).encode())
        digest.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        digests.append(digest.digest())
    return hashlib.sha256(b"".join(digests)).hexdigest()


@pytest.mark.parametrize("name", zoo.swept(zoo.names(), zoo.FEWER | {"llama_longrope", "deepseek_v3", "gptj"}))
def test_a_model_as_it_was_loaded_has_the_hash_of_earlier_versions(name: str, tmp_path: Path) -> None:
    with zoo.entry(name).within():
        hf = from_disk(zoo.build(name), tmp_path, torch.float32)
    assert weight_hash(hf) == hash_of_weights(hf)
    with torch.no_grad():
        hf(torch.tensor(zoo.prompts(hf, (64,))), use_cache=False)
    assert weight_hash(hf) == hash_of_weights(hf), "rotary tables that a long forward exchanges are state"
    built = zoo.entry(name).build()
    assert weight_hash(built) == hash_of_weights(built)


def scale_attention(hf: Any) -> None:
    hf.model.layers[2].self_attn.scaling *= 1.5


def raise_epsilon(hf: Any) -> None:
    hf.model.norm.variance_epsilon = 0.5


def turn_slower(hf: Any) -> None:
    hf.model.rotary_emb.inv_freq.mul_(0.5)


def round_tables(hf: Any) -> None:
    hf.model.rotary_emb.to(torch.bfloat16)


def exchange_activation(hf: Any) -> None:
    hf.model.layers[1].mlp.act_fn = nn.ReLU()


CHANGES = [scale_attention, raise_epsilon, turn_slower, round_tables, exchange_activation]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_constant_is_another_model(change: Callable[[Any], None]) -> None:
    hf = zoo.entry("llama").build()
    before = weight_hash(hf)
    with torch.no_grad():
        change(hf)
    changed = weight_hash(hf)
    assert changed != before
    assert weight_hash(hf) == changed
    again = zoo.entry("llama").build()
    with torch.no_grad():
        change(again)
    assert weight_hash(again) == changed, "a model that was changed before it was ever read is known too"


def test_what_is_dropped_in_training_is_no_constant() -> None:
    """A model is measured and exported in evaluation mode, in which nothing is dropped."""
    for name, change in (
        ("gpt2", lambda hf: setattr(hf.transformer.drop, "p", 0.5)),
        ("llama", lambda hf: setattr(hf.model.layers[1].self_attn, "attention_dropout", 0.5)),
    ):
        hf = zoo.entry(name).build()
        before = weight_hash(hf)
        change(hf)
        assert weight_hash(hf) == before


def test_a_constant_that_is_changed_back_leaves_no_trace() -> None:
    hf = zoo.entry("llama").build()
    before, scaling = weight_hash(hf), hf.model.layers[2].self_attn.scaling
    scale_attention(hf)
    assert weight_hash(hf) != before
    hf.model.layers[2].self_attn.scaling = scaling
    assert weight_hash(hf) == before


def test_a_model_that_its_configuration_cannot_make_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = zoo.entry("llama").build()
    monkeypatch.setattr(type(hf), "_from_config", classmethod(lambda *_, **__: 1 / 0))
    assert weight_hash(hf) == hash_of_weights(hf)
    raise_epsilon(hf)
    changed = weight_hash(hf)
    assert changed != hash_of_weights(hf)
    hf.model.norm.variance_epsilon = hf.config.rms_norm_eps
    assert weight_hash(hf) == hash_of_weights(hf)


@pytest.mark.parametrize("change", CHANGES[:3])
def test_a_run_is_not_resumed_by_a_model_with_other_constants(
    change: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf = zoo.entry("llama").build()
    model = bathyscope.load(hf)
    first = bathyscope.survey(model, IDS, ["residual"], tmp_path / "run", progress=False)
    assert bathyscope.survey(model, IDS, ["residual"], tmp_path / "run", progress=False).identity == first.identity
    with torch.no_grad():
        change(hf)
    with (
        pytest.warns(UserWarning, match=r"The weights or constants of \w+ have changed since it was loaded"),
        pytest.raises(StoreError, match="weight_hash: run has"),
    ):
        bathyscope.survey(model, IDS, ["residual"], tmp_path / "run", progress=False)


def test_a_configuration_that_changed_after_loading_is_read_again() -> None:
    hf = zoo.entry("granite").build()
    model = bathyscope.load(hf)
    assert loaded(model) is model
    hf.config.logits_scaling *= 2
    with pytest.warns(UserWarning, match=r"The (settings|weights or constants) of \w+ have changed since it was"):
        again = loaded(model)
    assert again.anatomy.readout.divisor == hf.config.logits_scaling
    assert loaded(again) is again
    hf.set_attn_implementation("eager")
    with pytest.warns(UserWarning, match=r"The settings of \w+ have changed since it was loaded"):
        assert loaded(again).checks.no_op <= again.checks.tolerance


def test_constants_that_no_checkpoint_holds_are_not_exported(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    scale_attention(hf)
    said = r"layers\.2\.self_attn\.scaling of this \w+ is not what its configuration makes, and no check"
    with pytest.raises(ModelError, match=said):
        bathyscope.export(hf, "drop:1", tmp_path / "out")
    with pytest.raises(ModelError, match=said):
        bathyscope.survey(hf, IDS, ["residual"], schedule="drop:1", progress=False)
    assert not (tmp_path / "out").exists()

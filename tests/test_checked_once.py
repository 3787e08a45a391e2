"""A model is checked again for whatever could make its checks come out otherwise, and for nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.checked_once import CheckedOnce, UnknownError
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import proving
from bathyscope.model.anatomy import gaps


def tiny() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64}
    return LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=3, num_attention_heads=4)).eval()


def nudged(hf: Any, name: str) -> None:
    """The smallest change of a single weight."""
    weight = hf.get_parameter(name).data.view(-1)
    weight[0] = torch.nextafter(weight[0], torch.tensor(torch.inf))


def without_a_block(hf: Any) -> None:
    hf.model.layers = hf.model.layers[:2]


CHANGES: dict[str, Callable[[Any, pytest.MonkeyPatch], object]] = {
    "a weight": lambda hf, _: nudged(hf, "model.layers.1.mlp.up_proj.weight"),
    "a norm": lambda hf, _: nudged(hf, "model.norm.weight"),
    "a buffer": lambda hf, _: hf.model.rotary_emb.inv_freq.mul_(1.5),
    "a constant": lambda hf, _: setattr(hf.model.layers[0].self_attn, "scaling", 0.5),
    "a setting": lambda hf, _: setattr(hf.config, "rms_norm_eps", 1e-3),
    "kernels": lambda hf, _: hf.set_attn_implementation("eager"),
    "a tie": lambda hf, _: setattr(hf.lm_head, "weight", hf.model.embed_tokens.weight),
    "a block less": lambda hf, _: without_a_block(hf),
    "a block of another class": lambda hf, _: setattr(
        hf.model.layers[1].mlp, "__class__", type("Mine", (modeling_llama.LlamaMLP,), {})
    ),
    "a forward of the class": lambda _, patch: patch.setattr(
        modeling_llama.LlamaMLP, "forward", lambda self, x: self.down_proj(self.up_proj(x))
    ),
    "a function of the library": lambda _, patch: patch.setattr(
        modeling_llama, "rotate_half", lambda x, rotate=modeling_llama.rotate_half: rotate(x)
    ),
    "a function of the checks": lambda _, patch: patch.setattr(gaps, "tolerance", lambda dtype: 1.0),
    "the default dtype": lambda _, patch: patch.setattr(torch, "get_default_dtype", lambda: torch.float64),
}


class Wrapped(torch.nn.Parameter):
    """A tensor whose numbers may lie elsewhere, as those of quantised weights do."""


class Counted:
    """Checks that are counted."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, anatomy: Any) -> Any:
        self.calls += 1
        return anatomy.checks


@pytest.fixture(scope="module")
def model() -> bathyscope.Model:
    return bathyscope.load(tiny())


def anatomy_of(hf: Any, model: bathyscope.Model) -> Any:
    """An anatomy to be checked, of which the gaps are those of ``model``."""
    anatomy = proving.anatomy_of(hf)
    anatomy.__dict__["checks"] = model.checks
    return anatomy


def test_the_same_model_is_checked_once(model: bathyscope.Model) -> None:
    counted = Counted()
    once = CheckedOnce(counted)
    found = [once(anatomy_of(hf, model)) for hf in (tiny(), tiny(), copy.deepcopy(tiny()))]
    assert counted.calls == 1
    assert found == [model.checks] * 3
    anatomy = anatomy_of(tiny(), model)
    once(anatomy)
    assert anatomy.padding_gap == model.checks.padding
    once.is_on = False
    once(anatomy_of(tiny(), model))
    assert counted.calls == 2


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_its_numbers_has_it_checked_again(
    change: str, model: bathyscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, hf = Counted(), tiny()
    once = CheckedOnce(counted)
    once(anatomy_of(tiny(), model))
    CHANGES[change](hf, monkeypatch)
    once(anatomy_of(hf, model))
    assert counted.calls == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda hf: hf.model.layers[1].register_forward_hook(lambda *_: None),
        lambda hf: hf.model.layers[1].register_forward_pre_hook(lambda *_: None),
        lambda hf: setattr(hf.model.layers[1], "whatever", object()),
        lambda hf: setattr(hf.model.norm, "weight", Wrapped(hf.model.norm.weight.data)),
    ],
)
def test_what_has_no_key_is_always_checked(change: Callable[[Any], object], model: bathyscope.Model) -> None:
    counted, hf = Counted(), tiny()
    once = CheckedOnce(counted)
    change(hf)
    anatomy = anatomy_of(hf, model)
    with pytest.raises(UnknownError):
        once.key(anatomy)
    once(anatomy)
    once(anatomy)
    assert counted.calls == 2


def test_a_replaced_forward_is_another_model(model: bathyscope.Model) -> None:
    """Each is a function of its own, whatever it does."""
    counted = Counted()
    once = CheckedOnce(counted)
    for _ in range(2):
        hf = tiny()
        hf.model.layers[1].mlp.forward = lambda x: x
        once(anatomy_of(hf, model))
    assert counted.calls == 2


def test_failures_are_not_kept(model: bathyscope.Model) -> None:
    def failing(anatomy: Any) -> Any:
        raise ModelError("no")

    once = CheckedOnce(failing)
    for _ in range(2):
        with pytest.raises(ModelError):
            once(anatomy_of(tiny(), model))
    assert not once.known

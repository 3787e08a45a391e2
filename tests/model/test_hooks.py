"""Hooks of others on a model: found by ``load`` and by ``survey``, and named."""

from __future__ import annotations

from functools import partial, update_wrapper
from typing import Any

import accelerate
import pytest
import torch
from support import zoo
from torch import nn

import bathyscope
from bathyscope import ModelError
from bathyscope.model import load

IDS = [[5, 6, 7, 8, 9], [9, 8, 7, 6]]


def steer(_module: nn.Module, _args: Any, output: Any) -> Any:
    """A steering vector at the last position."""
    return output


class Recorder:
    """A hook that is an object."""

    def __call__(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda hf: hf.model.layers[2].register_forward_hook(steer), r"A forward hook \(steer\) .* model\.layers\.2\."),
        (
            lambda hf: hf.model.layers[0].mlp.register_forward_hook(partial(steer)),
            r"A forward hook \(partial\) .* model\.layers\.0\.mlp\.",
        ),
        (
            lambda hf: hf.model.layers[1].register_forward_pre_hook(Recorder()),
            r"A forward pre-hook \(Recorder\) .* model\.layers\.1\.",
        ),
        (
            lambda hf: hf.model.norm.register_full_backward_hook(lambda *_: None),
            r"A backward hook \(.*<lambda>\) is registered on model\.norm\.",
        ),
        (
            lambda hf: hf.lm_head.register_full_backward_pre_hook(lambda *_: None),
            r"A backward pre-hook .* lm_head\. It would act on rows, tokens and blocks that it was not written for",
        ),
        (lambda hf: hf.register_forward_hook(steer), r"A forward hook \(steer\) is registered on the model itself"),
        (lambda _: nn.modules.module.register_module_forward_hook(steer), r"A forward hook .* every module"),
    ],
)
def test_a_hook_is_refused_until_it_is_removed(register: Any, message: str) -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    handle = register(hf)
    try:
        with pytest.raises(ModelError, match=message):
            load(hf)
        with pytest.raises(ModelError, match=message):
            bathyscope.survey(model, IDS, ["residual"], progress=False)
    finally:
        handle.remove()
    assert bathyscope.survey(model, IDS, ["residual"], progress=False)["residual"].sizes["prompt"] == 2


def test_hooks_of_libraries_pass() -> None:
    """Weights that torch computes, outputs that transformers collects, devices that accelerate minds."""
    hf = zoo.entry("llama").build()
    nn.utils.spectral_norm(hf.model.layers[1].mlp.up_proj)
    hf(torch.tensor([IDS[0]]), output_hidden_states=True, output_attentions=True)
    accelerate.dispatch_model(hf, {"": "cpu"})
    assert any(module._forward_pre_hooks for module in hf.modules())
    assert load(hf).checks.no_op == 0


def test_a_model_that_runs_a_schedule() -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    with bathyscope.scheduled(model, "drop:1"):
        for given in (model, hf):
            with pytest.raises(ModelError, match=r"This model runs a schedule at the moment .*; survey"):
                bathyscope.survey(given, IDS, ["residual"], progress=False)
    assert load(hf).n_blocks == 5


def test_a_hook_that_a_library_wraps_is_no_hook_of_the_library() -> None:
    hf = zoo.entry("llama").build()
    for hook in (torch.no_grad()(steer), update_wrapper(lambda *_: None, nn.Module.forward)):
        handle = hf.model.layers[1].register_forward_hook(hook)
        with pytest.raises(ModelError, match=r"A forward hook .* is registered on model\.layers\.1"):
            load(hf)
        handle.remove()

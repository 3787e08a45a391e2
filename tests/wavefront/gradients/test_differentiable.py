"""Gradients are taken without a trace, whatever the caller's mode; models they do not pass through are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from support import zoo
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from bathyscope.errors import ModelError
from bathyscope.model import anatomy_of
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.wavefront.gradients import differentiable
from bathyscope.wavefront.gradients.differentiable import differentiating, require_differentiable


def spoilt(spoil: Callable[[nn.Module], None]) -> Anatomy:
    """A Llama whose third block was changed after it was resolved."""
    anatomy = anatomy_of(zoo.entry("llama").build())
    spoil(anatomy.blocks[2])
    return anatomy


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_quantised_weights_are_named_with_their_dtype(dtype: torch.dtype) -> None:
    def quantise(block: nn.Module) -> None:
        projection = block.mlp.up_proj
        projection.weight = nn.Parameter(projection.weight.detach().to(dtype), requires_grad=False)

    with pytest.raises(ModelError) as caught:
        require_differentiable(spoilt(quantise), "gradient")
    assert str(caught.value) == (
        "gradient needs gradients, and the weight model.layers.2.mlp.up_proj.weight is stored as "
        f"{str(dtype).removeprefix('torch.')}, through which they do not pass exactly. Load the model unquantised, in "
        "float32, bfloat16 or float16."
    )


def test_packed_weights_that_are_no_parameters_are_found() -> None:
    def pack(block: nn.Module) -> None:
        block.mlp.register_buffer("qweight", torch.zeros(4, 4, dtype=torch.int32))

    with pytest.raises(ModelError, match=r"the weight model\.layers\.2\.mlp\.qweight is stored as int32"):
        require_differentiable(spoilt(pack), "gradient")


class Detached(nn.Linear):
    """A kernel without a gradient, as a faulty quantised layer has it."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(input)


class Failing(nn.Linear):
    """A kernel whose backward pass does not exist."""

    def forward(self, input: Tensor) -> Tensor:
        return NoBackward.apply(super().forward(input))


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, values: Tensor) -> Tensor:
        return values.clone()


def instead(kind: type[nn.Linear]) -> Callable[[nn.Module], None]:
    def put(block: nn.Module) -> None:
        old = block.mlp.up_proj
        block.mlp.up_proj = kind(old.in_features, old.out_features, bias=False)

    return put


def test_a_module_that_cuts_the_gradient_off_is_named() -> None:
    """The residual stream goes past it, so that a wrong gradient would arrive without any error."""
    with pytest.raises(ModelError, match=r"the module model\.layers\.2\.mlp\.up_proj \(1 in all\) of this llama model"):
        require_differentiable(spoilt(instead(Detached)), "integrated_gradients")


def test_a_failing_backward_pass_says_why() -> None:
    with pytest.raises(ModelError, match=r"this llama model cannot give them: .*backward.* Load the model unquantised"):
        require_differentiable(spoilt(instead(Failing)), "integrated_gradients")


def test_a_backward_pass_without_room_is_no_fault_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(differentiable, "_backward", full)
    with pytest.raises(ModelError, match=r"^A backward pass of four tokens does not fit into the memory of cpu"):
        require_differentiable(anatomy_of(zoo.entry("llama").build()), "gradient")


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma4", "mixtral", "deepseek_v32", "mamba", "opt_post_norm"])
def test_ordinary_models_pass_unchanged(name: str) -> None:
    model = zoo.entry(name).build()
    flags = [p.requires_grad for p in model.parameters()]
    require_differentiable(anatomy_of(model), "gradient")
    assert [p.requires_grad for p in model.parameters()] == flags
    assert not any(module._forward_hooks for module in model.modules())


def test_a_model_without_values_is_asked_for_its_dtypes_only() -> None:
    anatomy = anatomy_of(zoo.entry("llama").build())
    with torch.device("meta"):
        outline = AutoModelForCausalLM.from_config(zoo.entry("llama").config())
    flags = [p.requires_grad for p in outline.parameters()]
    require_differentiable(replace(anatomy, model=outline), "gradient")
    assert all(p.is_meta for p in outline.parameters())
    assert [p.requires_grad for p in outline.parameters()] == flags
    with pytest.raises(ModelError):
        require_differentiable(replace(anatomy, model=outline.to(torch.float8_e4m3fn)), "gradient")


def model() -> nn.Module:
    made = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    made[0].weight.requires_grad_(False)
    made.train()
    made[2].eval()
    return made


def state(of: nn.Module) -> tuple[list[bool], list[bool]]:
    return [p.requires_grad for p in of.parameters()], [m.training for m in of.modules()]


@pytest.mark.parametrize(
    "mode", [nullcontext(), torch.no_grad(), torch.inference_mode()], ids=["on", "off", "inference"]
)
def test_autograd_records_whatever_the_callers_mode(mode: AbstractContextManager[None]) -> None:
    made = model()
    with mode:
        before = state(made), torch.is_grad_enabled()
        with differentiating(made):
            assert not any(p.requires_grad for p in made.parameters())
            assert not any(m.training for m in made.modules())
            leaf = torch.ones(2, 3, requires_grad=True)
            (found,) = torch.autograd.grad(made(leaf).sum(), leaf)
        assert (state(made), torch.is_grad_enabled()) == before
    wanted = (made[2].weight @ made[0].weight).detach().expand(2, 3)
    assert torch.allclose(found, wanted)
    assert all(p.grad is None for p in made.parameters())


def test_an_exception_leaves_the_model_as_it_was() -> None:
    made = model()
    before = state(made)
    with pytest.raises(KeyError), differentiating(made):
        raise KeyError
    assert state(made) == before

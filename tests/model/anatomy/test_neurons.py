"""Output weights found by trial, against the names families give them and against what the modules compute."""

from __future__ import annotations

import re
from functools import cache

import pytest
import torch
from support import zoo
from torch import nn

from bathyscope.errors import ModelError
from bathyscope.model import anatomy_of, weight_hash
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.neurons import OutputWeights, directions_of, output_weights
from bathyscope.model.anatomy.sites import tapped

# the names that families of the zoo give to what their MLPs write with
_DOWN = r"(down_proj|c_proj|fc2|fc_out|dense_4h_to_h|output_linear|Wo|proj_down|w2|ffn\.2)"
_MLP = r"(mlp|mlp_block|ffn|feed_forward|experts|shared_mlp|block_sparse_moe|fc2)"
NAMED = re.compile(rf"^(?!self_attention)(?=.*\b{_MLP}\b).*\b{_DOWN}(\.weight)?$")
FOUND = [entry.name for entry in zoo.entries(plain=True) if entry.parts]


@cache
def anatomy(name: str) -> Anatomy:
    return anatomy_of(zoo.build(name))


def named(block: nn.Module) -> set[str]:
    """Paths of a block's down projections, by name."""
    return {path for path, weight in block.named_parameters() if weight.ndim > 1 and NAMED.match(path)}


@pytest.mark.parametrize("name", FOUND)
def test_every_family_has_its_down_projections_and_nothing_else(name: str) -> None:
    known = anatomy(name)
    found = output_weights(known)
    assert [{one.path for one in block} for block in found] == [named(block) for block in known.blocks]
    assert all(block for block in found)
    for block, groups in zip(known.blocks, found):
        parameters = dict(block.named_parameters())
        for one in groups:
            assert one.weight is parameters[one.path]
            assert sum(len(matrix) for matrix in one.matrices()) == one.neurons
            assert {matrix.shape[1] for matrix in one.matrices()} == {known.width}


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt", "ctrl", "bloom", "recurrent_gemma", "llama4", "xlstm"])
def test_activations_times_directions_are_the_contribution(name: str) -> None:
    """Up to the bias, which is what the module gives for no activation at all."""
    known = anatomy(name)
    for index, (one, *others) in enumerate(output_weights(known)):
        if others:
            continue
        given, contribution = contributions(known, index, one)
        bias = one.owner(torch.zeros_like(given)).flatten(0, -2)
        expected = given.flatten(0, -2) @ directions_of([one], range(one.neurons)) + bias
        torch.testing.assert_close(contribution, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["olmo2", "gemma2", "glm4", "gemma4_plain"])
def test_behind_a_norm_they_are_the_contribution_up_to_its_scale(name: str) -> None:
    known = anatomy(name)
    for index, (one,) in enumerate(output_weights(known)):
        assert one.gain is not None
        given, contribution = contributions(known, index, one)
        expected = given.flatten(0, -2) @ directions_of([one], range(one.neurons))
        torch.testing.assert_close(unit(contribution), unit(expected), atol=1e-5, rtol=1e-4)


def contributions(known: Anatomy, index: int, one: OutputWeights) -> tuple[torch.Tensor, torch.Tensor]:
    """The neurons' activations in a plain forward, and the MLP's contribution [all tokens, width]."""
    given: list[torch.Tensor] = []
    handle = one.owner.register_forward_pre_hook(lambda _m, args: given.append(args[0].clone()))
    try:
        with torch.no_grad(), tapped(known.blocks[index], {"mlp": known.sites["mlp"]}) as taken:
            known.model(input_ids=torch.tensor(zoo.prompts(known.model, (7, 7))), use_cache=False)
    finally:
        handle.remove()
    return given[0], taken["mlp"].flatten(0, -2)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


def test_two_norms_on_the_way_are_both_in_the_directions() -> None:
    """Gemma 4 norms the MLP and the experts apart, adds them up, and norms the sum."""
    known = anatomy("gemma4_experts")
    block = known.blocks[0]
    experts, dense = output_weights(known)[0]
    outer = block.post_feedforward_layernorm.weight
    torch.testing.assert_close(dense.gain, outer * block.post_feedforward_layernorm_1.weight)
    torch.testing.assert_close(experts.gain, outer * block.post_feedforward_layernorm_2.weight)


def test_experts_come_one_after_the_other_and_before_the_shared_one() -> None:
    known = anatomy("qwen2_moe")
    routed, shared = output_weights(known)[0]
    mlp = known.blocks[0].mlp
    assert (routed.experts, shared.experts) == (4, None)
    assert (routed.visible, shared.visible) == (False, True)
    rows = directions_of([routed, shared], [0, 31, 32, 127, 128, 175])
    stacked = mlp.experts.down_proj.detach()
    expected = [stacked[0, :, 0], stacked[0, :, 31], stacked[1, :, 0], stacked[3, :, 31]]
    alone = mlp.shared_expert.down_proj.weight.detach()
    torch.testing.assert_close(rows, torch.stack([*expected, alone[:, 0], alone[:, 47]]), rtol=0, atol=0)


def test_experts_flattened_into_one_matrix_are_told_apart() -> None:
    (one,) = output_weights(anatomy("dbrx"))[0]
    assert (one.experts, one.neurons) == (4, 192)


def test_directions_are_copies() -> None:
    (one,) = output_weights(anatomy("llama"))[0]
    before = one.weight.detach().clone()
    one.directions(next(one.matrices())).zero_()
    assert torch.equal(one.weight, before)


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "gemma4_experts"])
def test_the_live_model_stays_as_it_is(name: str) -> None:
    hf = zoo.entry(name).build().train()
    known, before = anatomy_of(hf), weight_hash(hf)
    parameters = dict(hf.named_parameters())
    output_weights(known)
    assert weight_hash(hf) == before
    assert all(parameters[path] is parameter for path, parameter in hf.named_parameters())
    assert hf.training
    assert not any(module._forward_hooks for module in hf.modules())


@pytest.mark.parametrize("name", ["mamba", "rwkv", "opt_post_norm"])
def test_models_without_separable_mlps_have_none(name: str) -> None:
    assert output_weights(anatomy(name)) == [()] * 5


def test_quantised_weights_are_refused_with_their_dtype() -> None:
    class Packed(nn.Module):
        def __init__(self, whole: nn.Linear) -> None:
            super().__init__()
            self.scale = whole.weight.detach().abs().max() / 127
            self.register_buffer("weight", (whole.weight.detach() / self.scale).round().to(torch.int8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.weight.float() * self.scale).T

    hf = zoo.entry("llama").build()
    hf.model.layers[1].mlp.down_proj = Packed(hf.model.layers[1].mlp.down_proj)
    with pytest.raises(ModelError, match=r"mlp\.down_proj\.weight is quantised \(int8\)\. Load the model unquantised"):
        output_weights(anatomy_of(hf))

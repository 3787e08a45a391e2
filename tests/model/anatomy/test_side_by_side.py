"""Models whose parts stand in lists next to each other, against one forward of a model with a list of blocks."""

from __future__ import annotations

import pytest
import torch
from support import naive
from support.brute_force import compare
from support.listed import ListedXLM, build_xlm
from torch import nn

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import load

IDS = [[5, 9, 1, 33, 2, 17, 4, 40, 3], [8, 2, 51, 7, 7, 30]]
CLOSE = 1e-5


@pytest.mark.parametrize("ids", IDS)
def test_the_written_list_of_blocks_is_the_untouched_model_to_the_bit(ids: list[int]) -> None:
    hf = build_xlm()
    assert torch.equal(naive.logits(ListedXLM(hf), ids), naive.logits(hf, ids))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_every_measure_is_equal_to_forwards_of_its_own() -> None:
    result = compare(load(build_xlm()), build_xlm(), IDS)
    assert len(result.measures) == 7
    assert len(result.gaps) == 42
    assert result.worst <= CLOSE, result.gaps


def test_blocks_are_replayed_to_the_bit_and_in_any_order() -> None:
    model, listed = load(build_xlm()), ListedXLM(build_xlm())
    assert model.checks.no_op == 0.0
    assert model.anatomy.n_blocks == 4
    stream = naive.boundaries(listed, listed.blocks, IDS[0])[:, None]  # type: ignore[arg-type]
    replay = model.anatomy.replay(torch.tensor(IDS[:1]))
    with torch.no_grad():
        for number in (3, 0, 2, 1):
            after = replay.run(model.anatomy.blocks[number], number, stream[number])
            assert torch.equal(after, stream[number + 1])


def test_weights_of_a_block_are_those_of_its_parts() -> None:
    hf = build_xlm()
    model = load(hf)
    trunk = hf.transformer
    lists = (trunk.attentions, trunk.layer_norm1, trunk.ffns, trunk.layer_norm2)
    for number, block in enumerate(model.anatomy.blocks):
        own = {id(parameter) for listed in lists for parameter in listed[number].parameters()}
        assert {id(parameter) for parameter in block.parameters()} == own


def test_gradients_reach_every_block() -> None:
    model, listed = load(build_xlm()), ListedXLM(build_xlm())
    replay = model.anatomy.replay(torch.tensor(IDS[:1]))
    mask = torch.ones(1, len(IDS[0]), len(IDS[0])).tril()
    gradients = []
    for run in (
        lambda h, number: replay.run(model.anatomy.blocks[number], number, h),
        lambda h, number: listed.blocks[number](h, mask),
    ):
        h = leaf = replay.recording.resid0_BTD.clone().requires_grad_()
        for number in range(4):
            h = run(h, number)
        gradients.append(torch.autograd.grad(h.square().sum(), leaf)[0])
    torch.testing.assert_close(*gradients)


def test_both_directions_are_refused_by_the_configuration() -> None:
    message = (
        "xlm models cannot be measured: with causal=False every token attends to all others. It can with causal=True"
    )
    with pytest.raises(ModelError) as caught:
        load(build_xlm(causal=False))
    assert str(caught.value) == message


def test_the_own_forward_has_no_list_to_schedule() -> None:
    with (
        pytest.raises(ModelError, match="stand in lists next to each other, so its own forward has no list of blocks"),
        bathyscope.scheduled(load(build_xlm()), "drop:1"),
    ):
        pass


def test_lists_must_have_as_many_modules_as_each_other() -> None:
    hf = build_xlm()
    hf.transformer.ffns = nn.ModuleList([*hf.transformer.ffns, nn.Identity()])
    with pytest.raises(ModelError, match="the lists of its blocks' parts have 4, 5 modules"):
        load(hf)

"""The reference implementation itself, checked against models that were really changed."""

from __future__ import annotations

from operator import attrgetter

import pytest
import torch
from support import naive, zoo
from torch import nn
from transformers import PreTrainedModel

from bathyscope.model.anatomy.family import Family

REBUILDABLE = [
    "llama",
    "gpt2",
    "gpt_neox",
    "bloom",
    "falcon",
    "mpt",
    "olmo2",
    "opt",
    "mixtral",
    "phi",
    "granite",
]
"""Families in which all blocks get the same arguments, so that editing the list of blocks is exact."""


def with_blocks(model: PreTrainedModel, order: list[int]) -> PreTrainedModel:
    """The model with its list of blocks really put into ``order``."""
    family: Family = naive.family_of(model)
    parent, name = family.blocks.rsplit(".", 1)
    blocks = naive.blocks_of(model)
    setattr(attrgetter(parent)(model), name, nn.ModuleList(blocks[index] for index in order))
    model.config.num_hidden_layers = len(order)
    return model


@pytest.mark.parametrize("name", REBUILDABLE)
@pytest.mark.parametrize(
    "order",
    [naive.drop_order(5, 0), naive.drop_order(5, 3), naive.swap_order(5, 1), naive.repeat_order(5, 1, 2)],
    ids=["drop0", "drop3", "swap1", "repeat1+2"],
)
def test_a_schedule_equals_a_model_built_in_that_order(name: str, order: list[int]) -> None:
    model = zoo.build(name)
    ids = zoo.prompts(model)[0]
    got, steps = naive.run_schedule(model, naive.blocks_of(model), ids, order)
    edited = with_blocks(zoo.entry(name).build(), order)
    assert torch.equal(got, naive.logits(edited, ids))
    assert len(steps) == len(order)


@pytest.mark.parametrize("name", zoo.names(plain=True))
def test_the_standard_schedule_equals_the_untouched_model(name: str) -> None:
    model = zoo.build(name)
    blocks, ids = naive.blocks_of(model), zoo.prompts(model)[0]
    expected, stream = naive.logits(model, ids), naive.boundaries(model, blocks, ids)
    got, steps = naive.run_schedule(model, blocks, ids, range(len(blocks)))
    assert torch.equal(got, expected)
    assert torch.equal(torch.stack(steps), stream[1:])
    assert torch.equal(naive.logits(model, ids), expected), "the model was not put back"


def test_windows_follow_the_block() -> None:
    """A swap of a windowed and an unwindowed block permutes the window types together with the blocks."""
    model = zoo.build("ministral")
    ids, order = zoo.prompts(model)[0], naive.swap_order(5, 0)
    got, _ = naive.run_schedule(model, naive.blocks_of(model), ids, order)
    kinds = model.config.layer_types
    by_block = with_blocks(zoo.entry("ministral").build(), order)
    by_slot_logits = naive.logits(by_block, ids)
    by_block.config.layer_types = [kinds[index] for index in order]
    assert kinds[0] != kinds[1]
    assert torch.equal(got, naive.logits(by_block, ids))
    assert not torch.allclose(got, by_slot_logits, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "part", "weights"),
    [
        ("llama", "attention", ["self_attn.o_proj"]),
        ("llama", "mlp", ["mlp.down_proj"]),
        ("bloom", "attention", ["self_attention.dense"]),
        ("mpt", "mlp", ["ffn.down_proj"]),
        ("opt", "mlp", ["fc2"]),
        ("falcon", "attention", ["self_attention.dense"]),
        ("granitemoeshared", "mlp", ["block_sparse_moe.experts", "shared_mlp.output_linear"]),
        ("gemma4", "attention", ["post_attention_layernorm"]),
        ("falcon_h1", "attention", ["self_attn.o_proj", "mamba.out_proj"]),
    ],
)
def test_skipping_a_part_everywhere_equals_zero_output_weights(name: str, part: str, weights: list[str]) -> None:
    model = zoo.build(name)
    ids = zoo.prompts(model)[0]
    stream, logits = naive.skip_all(model, naive.blocks_of(model), ids, 1, part, protect_first=0)
    zeroed = zoo.entry(name).build()
    block = naive.blocks_of(zeroed)[1]
    for path in weights:
        for parameter in attrgetter(path)(block).parameters():
            nn.init.zeros_(parameter)
    expected = naive.boundaries(zeroed, naive.blocks_of(zeroed), ids)
    torch.testing.assert_close(stream, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(logits, naive.logits(zeroed, ids), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["llama", "falcon", "bloom", "gemma4", "gpt_neo"])
def test_skip_hands_the_input_on_at_the_skipped_positions_alone(name: str) -> None:
    model = zoo.build(name)
    blocks, ids = naive.blocks_of(model), zoo.prompts(model)[0]
    base = naive.boundaries(model, blocks, ids)
    stream, _ = naive.skip_future(model, blocks, ids, 2, 6)
    assert torch.equal(stream[:3], base[:3])
    assert torch.equal(stream[3, 1:6], base[2, 1:6])
    assert torch.equal(stream[3, [0, *range(6, len(ids))]], base[3, [0, *range(6, len(ids))]])
    assert torch.equal(stream[:, 0], base[:, 0])
    everywhere, _ = naive.skip_all(model, blocks, ids, 2, protect_first=0)
    assert torch.equal(everywhere[3], base[2])


def test_effects_by_hand() -> None:
    base = torch.tensor([[[0.0, 0.0]], [[3.0, 4.0]], [[3.0, 4.0]]])
    new = torch.tensor([[[0.0, 0.0]], [[0.0, 4.0]], [[0.0, 6.0]]])
    torch.testing.assert_close(naive.effects(base, new), torch.tensor([[3 / 5], [2 / 1e-6]], dtype=torch.float64))


def test_token_metrics_by_hand() -> None:
    base, new = torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.tensor([[0.25, 0.5, 0.25]]).log()
    ln2 = torch.log(torch.tensor(2.0)).item()
    assert naive.kl(base, new).item() == pytest.approx(0.5 * ln2 - 0.25 * ln2)
    assert naive.output_change(base, new).item() == pytest.approx((2 * 0.25**2) ** 0.5)
    assert naive.entropy_bits(base).item() == pytest.approx(1.5)
    assert naive.agreement(base, new).tolist() == [0.0]
    assert naive.agreement(base, base).tolist() == [1.0]
    assert naive.loss(torch.cat([base, new]), [1, 2]).tolist() == pytest.approx([2 * ln2])


def test_orders() -> None:
    assert naive.drop_order(4, 1) == [0, 2, 3]
    assert naive.swap_order(4, 1) == [0, 2, 1, 3]
    assert naive.repeat_order(5, 1, 3) == [0, 1, 1, 2, 2, 3, 3, 4]
    assert naive.repeat_order(3, 1, times=2) == [0, 1, 1, 1, 2]

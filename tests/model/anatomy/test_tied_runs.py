"""A stack that runs several times equals its unrolled copy to the bit, as its own forward, patched by hand, shows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope.model.anatomy.calls import replaced_forwards
from bathyscope.model.loading import load

BLOCKS, LOOPS = 2, 3
IDS = [[1, 5, 9, 3, 7, 2, 4, 4, 8, 1, 2, 6], [8, 8, 4, 6, 1, 7, 2, 2, 9, 3, 5, 5]]


class Turns(nn.ModuleList):
    """A list of blocks of which any slice, as a model's forward takes one, holds all blocks several times."""

    def __getitem__(self, index: Any) -> Any:
        return [*self] * LOOPS if isinstance(index, slice) else super().__getitem__(index)


def tiny(blocks: int) -> LlamaForCausalLM:
    sizes = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=blocks, **sizes, **heads)).eval()


@pytest.fixture(scope="module")
def looped() -> LlamaForCausalLM:
    torch.manual_seed(0)
    hf = tiny(BLOCKS)
    for weight in hf.parameters():
        nn.init.normal_(weight, float(weight.ndim == 1), 0.2)
    hf.model.layers = Turns(hf.model.layers)
    return hf


@pytest.fixture(scope="module")
def unrolled(looped: LlamaForCausalLM) -> LlamaForCausalLM:
    hf = tiny(BLOCKS * LOOPS)
    sharing = {id(weight): weight for weight in looped.parameters()}
    hf.model.layers = nn.ModuleList(
        copy.deepcopy(block, dict(sharing)) for _ in range(LOOPS) for block in looped.model.layers
    )
    hf.model.embed_tokens, hf.model.norm, hf.lm_head = looped.model.embed_tokens, looped.model.norm, looped.lm_head
    return hf


@torch.no_grad()
def without(looped: LlamaForCausalLM, runs: Collection[int]) -> Tensor:
    """Return the logits of the looped model's own forward in which the given calls of blocks hand the stream on."""
    calls = [0] * BLOCKS
    hooks = []

    def patch(index: int) -> Callable[..., Tensor | None]:
        def after(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            run = calls[index] * BLOCKS + index
            calls[index] += 1
            return inputs[0] if run in runs else None

        return after

    for index, block in enumerate(looped.model.layers):
        hooks.append(block.register_forward_hook(patch(index)))
    try:
        return looped(input_ids=torch.tensor(IDS), use_cache=False).logits
    finally:
        for hook in hooks:
            hook.remove()
        assert calls == [LOOPS] * BLOCKS


@pytest.mark.parametrize("runs", [(), (0,), (3,), (1, 3, 5), (0, 2, 4)], ids=str)
def test_runs_of_a_block_left_out_of_the_copy_are_those_of_the_loop(
    looped: LlamaForCausalLM, unrolled: LlamaForCausalLM, runs: tuple[int, ...]
) -> None:
    model = load(unrolled)
    schedule = ",".join(f"drop:{run}" for run in runs) or "standard"
    with bathyscope.scheduled(model, schedule), torch.no_grad():
        logits = unrolled(input_ids=torch.tensor(IDS), use_cache=False).logits
    assert torch.equal(logits, without(looped, runs))


def test_drop_of_every_run_agrees_with_the_patched_loop(looped: LlamaForCausalLM, unrolled: LlamaForCausalLM) -> None:
    run = bathyscope.survey(unrolled, IDS, ["drop"], progress=False)
    targets = torch.tensor(IDS)[:, 1:]

    def loss(logits: Tensor) -> Tensor:
        chances = logits[:, :-1].double().log_softmax(-1)
        return -chances.gather(-1, targets[..., None]).squeeze(-1).mean(-1)

    expected = torch.stack([loss(without(looped, [step])) for step in range(BLOCKS * LOOPS)], dim=1)
    torch.testing.assert_close(torch.tensor(run["drop"].loss.values), expected, atol=1e-5, rtol=0)


def test_copies_can_run_inside_the_forward_of_the_loop(looped: LlamaForCausalLM, unrolled: LlamaForCausalLM) -> None:
    steps = [*unrolled.model.layers]
    calls = [0] * BLOCKS
    order: list[int] = []

    def hand_over(index: int) -> Callable[..., Tensor]:
        def forward(*args: Any, **kwargs: Any) -> Tensor:
            step = calls[index] * BLOCKS + index
            calls[index] += 1
            order.append(step)
            return steps[step](*args, **kwargs)

        return forward

    plain = without(looped, [])
    blocks = [*looped.model.layers]
    with replaced_forwards(blocks, [hand_over(index) for index in range(BLOCKS)]), torch.no_grad():
        logits = looped(input_ids=torch.tensor(IDS), use_cache=False).logits
    assert torch.equal(logits, plain)
    assert order == list(range(BLOCKS * LOOPS))


def test_copies_that_share_add_no_weights(looped: LlamaForCausalLM, unrolled: LlamaForCausalLM) -> None:
    assert {id(weight) for weight in unrolled.parameters()} == {id(weight) for weight in looped.parameters()}
    first, third = unrolled.model.layers[0], unrolled.model.layers[BLOCKS]
    assert first is not third
    assert first.mlp.up_proj.weight is third.mlp.up_proj.weight


def test_the_loop_itself_is_measured_as_its_copies(looped: LlamaForCausalLM, unrolled: LlamaForCausalLM) -> None:
    own, copied = (bathyscope.survey(hf, IDS, ["drop", "swap"], progress=False) for hf in (looped, unrolled))
    for measure in ("drop", "swap"):
        for variable in copied[measure].data_vars:
            np.testing.assert_array_equal(own[measure][variable].values, copied[measure][variable].values)

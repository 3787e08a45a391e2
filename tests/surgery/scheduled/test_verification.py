"""The check before a schedule is entered: it measures a gap where the forward is not what it should be."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves, zoo
from torch import nn
from transformers import DynamicCache, PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model.anatomy.gaps import gap
from bathyscope.schedule import Schedule
from bathyscope.surgery.order.chain import Chain
from bathyscope.surgery.scheduled.running import expected_logits, require_parity


def chain_of(name: str, schedule: Schedule) -> Chain:
    anatomy = waves.loaded(name).anatomy
    return Chain(schedule, anatomy.blocks, anatomy.returns, "block")


def test_the_standard_schedule_passes_on_the_untouched_model() -> None:
    model, standard = waves.loaded("llama"), Schedule.standard(5)
    chain = chain_of("llama", standard)
    require_parity(model.hf, expected_logits(model.anatomy, standard, "block"), chain, standard)
    assert chain.refuses_cache == ""


def test_another_order_is_found_out_with_its_gap() -> None:
    """The untouched model is taken for one in which two blocks are swapped."""
    model, swapped = waves.loaded("llama"), Schedule.standard(5).swap(1)
    expected = expected_logits(model.anatomy, swapped, "block")
    plain = expected_logits(model.anatomy, Schedule.standard(5), "block")
    gap = float((plain - expected).abs().max() / expected.abs().max())
    assert gap > 1e-2
    said = rf"LlamaForCausalLM does not run this schedule \(swap:1\) rightly.* by {gap:.1e} of the"
    with pytest.raises(ModelError, match=said.replace("+", r"\+")):
        require_parity(model.hf, expected, chain_of("llama", swapped), swapped)


@pytest.mark.parametrize(
    ("name", "said"),
    [("bamba", "Going on from a cache changes"), ("openai-gpt", "it takes no cache of the library's kind")],
)
def test_where_only_the_cache_is_wrong_the_chain_refuses_it(name: str, said: str) -> None:
    model = waves.loaded(name)
    standard = Schedule.standard(model.n_blocks)
    chain = chain_of(name, standard)
    require_parity(model.hf, expected_logits(model.anatomy, standard, "block"), chain, standard)
    assert said in chain.refuses_cache


def test_a_model_that_looks_into_its_cache_before_its_blocks_is_refused_with_the_reason() -> None:
    """Qwen 4 keeps the positions of its indexers at the place of the first block that has one."""
    ids = torch.tensor([[5, 6, 7]])
    with bathyscope.scheduled(waves.loaded("qwen4_exp"), "drop:0") as hf:
        assert hf(ids).past_key_values is None
        for asked in ({"use_cache": True}, {"past_key_values": DynamicCache()}):
            with pytest.raises(
                ModelError, match=r"cannot go on from a cache under a schedule: .*with use_cache=False\."
            ):
                hf(ids, **asked)
        assert hf.generate(ids, max_new_tokens=2, use_cache=False, do_sample=False).shape == (1, 5)


@pytest.mark.parametrize("name", ["minimax", "mllama"])
def test_a_model_that_fills_no_cache_under_a_schedule_says_so_and_runs_without(name: str) -> None:
    """Both keep what they computed by the numbers of blocks in lists of their own."""
    ids = torch.tensor([[5, 6, 7]])
    with bathyscope.scheduled(waves.loaded(name), "drop:0") as hf:
        assert torch.equal(hf(ids).logits, hf(ids, use_cache=False).logits)
        with pytest.raises(
            ModelError, match=r"under a schedule: (Index|Value)Error.*[^.]\. Run it with use_cache=False\."
        ):
            hf(ids, use_cache=True)


def of_other_places(moved: Sequence[int]) -> PreTrainedModel:
    """A model in whose list blocks stand in somebody's own order, with the numbers of the places they come from."""
    hf: Any = zoo.entry("llama").build()
    hf.model.layers = nn.ModuleList([hf.model.layers[place] for place in moved])
    return hf


@settings(deadline=None, max_examples=12)
@given(
    moved=st.permutations(range(5)),
    order=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    asked=st.sampled_from([{}, {"use_cache": None}, {"use_cache": False}, {"return_dict": True}]),
)
def test_no_forward_fills_a_cache_that_blocks_of_other_numbers_share(
    moved: list[int], order: list[int], asked: dict[str, Any]
) -> None:
    """Blocks address a cache by the numbers that they bear, which need not be those of their places."""
    hf = of_other_places(moved)
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    by_hand = copy.deepcopy(hf)
    by_hand.model.layers = nn.ModuleList([by_hand.model.layers[block] for block in order])
    by_hand.config.num_hidden_layers = len(order)
    with torch.no_grad():
        expected = by_hand(ids, use_cache=False).logits
        with bathyscope.scheduled(hf, Schedule(tuple(order), 5)) as running:
            assert gap(running(ids, **asked).logits, expected) < 1e-5
            if running(ids).past_key_values is None:
                with pytest.raises(ModelError, match=r"Run it with use_cache=False\.$"):
                    running(ids, use_cache=True)
            else:
                begun = running(ids[:, :3], use_cache=True)
                rest = running(ids[:, 3:], past_key_values=begun.past_key_values).logits
                assert gap(torch.cat([begun.logits, rest], 1), expected) < 1e-3


def test_expected_logits_follow_the_slot_where_asked() -> None:
    anatomy, swapped = waves.loaded("gemma2").anatomy, Schedule.standard(5).swap(1)
    by_block, by_slot = (expected_logits(anatomy, swapped, arguments) for arguments in ("block", "slot"))
    assert by_block.shape == (2, 12, 120)
    assert float((by_block - by_slot).abs().max() / by_block.abs().max()) > 1e-2
    assert torch.equal(by_block, expected_logits(anatomy, swapped, "block"))

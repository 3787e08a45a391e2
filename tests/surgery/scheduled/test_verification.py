"""The check before a schedule is entered: it measures a gap where the forward is not what it should be."""

from __future__ import annotations

import pytest
import torch
from support import waves

import bathyscope
from bathyscope.errors import ModelError
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
        begun = hf(ids, use_cache=True).past_key_values
        with pytest.raises(ModelError, match=r"cannot go on from a cache under a schedule: .*with use_cache=False\."):
            hf(ids[:, :1], past_key_values=begun)
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


def test_expected_logits_follow_the_slot_where_asked() -> None:
    anatomy, swapped = waves.loaded("gemma2").anatomy, Schedule.standard(5).swap(1)
    by_block, by_slot = (expected_logits(anatomy, swapped, arguments) for arguments in ("block", "slot"))
    assert by_block.shape == (2, 12, 120)
    assert float((by_block - by_slot).abs().max() / by_block.abs().max()) > 1e-2
    assert torch.equal(by_block, expected_logits(anatomy, swapped, "block"))

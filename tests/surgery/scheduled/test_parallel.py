"""``parallel:a+b``: against hooks of plain PyTorch on the model's own forward, with and without a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import zoo
from support.planted_blocks import PLACES, two_workers
from support.rounding import bound_of_shares
from support.side_by_side import in_parallel
from support.waves import loaded
from surgery.scheduled.test_running import gap, greedy, ids_of, logits_of, wavefront

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.model.anatomy.parallel import merge_contributions
from bathyscope.schedule import Schedule
from bathyscope.surgery.scheduled.running import scheduled

FAMILIES = (
    *("llama", "gpt2", "falcon", "gemma2", "granite", "bloom", "lfm2", "mamba", "openai-gpt", "gemma4", "olmo2"),
    *("mixtral", "ministral", "universal", "moeut", "gpt_neox", "jamba"),
)
TEXTS = ("parallel:1+2", "parallel:0+1,parallel:2+3", "parallel:1-3")


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER | {"olmo2", "mixtral"}))
def test_logits_and_generated_tokens_are_those_of_hooks_on_the_models_own_forward(name: str) -> None:
    model = loaded(name)
    ids = ids_of(model, (9, 9))
    for text in TEXTS[: 2 if name == "gemma4" else 3]:
        schedule = Schedule.parse(text, model.n_blocks)
        with scheduled(model, text) as hf:
            logits = logits_of(hf, ids)
            tokens, steps = greedy(hf, ids[:1], use_cache=True)
        with in_parallel(zoo.build(name), schedule.groups) as reference:
            expected = logits_of(reference, ids)
            expected_tokens, expected_steps = greedy(reference, ids[:1], use_cache=True)
        assert gap(logits, expected) < bound_of_shares(model.hf), text
        assert gap(wavefront(model, ids, schedule), expected) < bound_of_shares(model.hf), text
        assert torch.equal(tokens, expected_tokens), text
        assert gap(steps, expected_steps) < 1e-3, text
        assert gap(expected, logits_of(zoo.build(name), ids)) > 1e-2, text


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_a_single_block_is_the_untouched_model_bit_for_bit(name: str) -> None:
    model = loaded(name)
    ids = ids_of(model)
    expected = logits_of(model.hf, ids)
    with scheduled(model, "parallel:2") as hf:
        assert torch.equal(logits_of(hf, ids), expected)


def test_a_block_is_dropped_first_and_its_neighbours_run_in_parallel() -> None:
    model = loaded("gpt2")
    ids = ids_of(model)
    schedule = Schedule.parse("drop:2,parallel:1+3", 5)
    reference: Any = zoo.entry("gpt2").build()
    del reference.transformer.h[2]
    with scheduled(model, schedule) as hf, in_parallel(reference, [(1, 2)]) as expected:
        assert gap(logits_of(hf, ids), logits_of(expected, ids)) < bound_of_shares(model.hf)


def test_blocks_that_do_not_read_what_the_other_writes_cost_nothing() -> None:
    """Blocks 1 and 2 read the same channels and write others; where block 2 reads what block 1 writes, it costs."""
    for second, reads in (("reads the same", PLACES["read"]), ("reads the first", PLACES["first"])):
        model = bathyscope.load(two_workers(reads))
        ids = ids_of(model)
        plain = logits_of(model.hf, ids)
        with scheduled(model, "parallel:1+2") as hf:
            cost = gap(logits_of(hf, ids), plain)
        assert (cost < 1e-5) == (second == "reads the same"), (second, cost)
        assert cost < 1e-5 or cost > 1e-2


def test_half_precision_is_rounded_once() -> None:
    draws = torch.Generator().manual_seed(0)
    before = torch.randn(4, 300, generator=draws).bfloat16()
    outputs = [before + torch.randn(4, 300, generator=draws).bfloat16() for _ in range(5)]
    exact = before.double() + sum(output.double() - before.double() for output in outputs)
    assert torch.equal(merge_contributions(before, outputs), exact.float().bfloat16())
    in_turn = outputs[0]
    for output in outputs[1:]:
        in_turn = in_turn + (output - before)
    assert not torch.equal(in_turn, exact.float().bfloat16())
    assert merge_contributions(before, outputs[:1]) is outputs[0]


@pytest.mark.parametrize("name", ["gemma3n", "xlnet", "zaya"])
def test_blocks_of_several_streams_are_refused(name: str) -> None:
    with (
        pytest.raises(ModelError, match=r"parallel:1\+2\) cannot run: .* several residual streams"),
        scheduled(loaded(name), "parallel:1+2"),
    ):
        pass


def test_a_block_that_takes_keys_and_values_of_another_cannot_run_in_parallel_with_it() -> None:
    """Gemma 4: block 3 takes those of block 1."""
    with (
        pytest.raises(ModelError, match="block 3 takes the keys and values of block 1, which would not have run"),
        scheduled(loaded("gemma4"), "parallel:1-3"),
    ):
        pass


def test_nothing_that_writes_a_checkpoint_takes_blocks_in_parallel(tmp_path: Path) -> None:
    model = loaded("llama")
    said = r"parallel:1\+2 cannot be a checkpoint: no configuration of plain transformers says"
    prompts = zoo.prompts(model.hf, (9, 9, 9))
    with pytest.raises(ModelError, match=said):
        bathyscope.export(model, "parallel:1+2", tmp_path / "copy")
    with pytest.raises(ModelError, match=said):
        bathyscope.export(model, "parallel:1+2", emit="layers")
    with pytest.raises(ModelError, match=said):
        bathyscope.survey(model, prompts, ["lens"], schedule="parallel:1+2", progress=False)
    with pytest.raises(ModelError, match=said):
        bathyscope.repair(model, "parallel:1+2", prompts, test=prompts, how="linear", progress=False)
    with pytest.raises(ModelError, match=said), scheduled(model, "parallel:1+2") as hf:
        hf.save_pretrained(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_groups_of_blocks_that_do_not_run_are_refused() -> None:
    with pytest.raises(OptionError, match="block 1 does not run"), scheduled(loaded("llama"), "drop:1,parallel:1+2"):
        pass

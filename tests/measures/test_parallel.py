"""Pairs in parallel, as ``swap`` scans them: against hooks of plain PyTorch, one forward for each pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from measures.test_schedules import TOKEN_METRICS, statistics
from support import naive, waves, zoo
from support.planted_blocks import PLACES, two_workers
from support.side_by_side import in_parallel
from torch import nn

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.measures import schedules
from bathyscope.measures.of.swap import Swap, SwapOptions
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import FinalStates
from bathyscope.wavefront.rows import ScheduleRow

FAMILIES = (
    *("llama", "gpt2", "falcon", "gemma2", "granite", "bloom", "lfm2", "mamba", "openai-gpt", "gemma4", "olmo2"),
    *("mixtral", "jamba", "universal"),
)
LENGTHS = (12, 9)


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, zoo.FEWER | {"olmo2", "mixtral"}))
def test_every_pair_equals_hooks_on_the_models_own_forward(name: str) -> None:
    model = waves.loaded(name)
    ids = zoo.prompts(model.hf, LENGTHS)
    if model.anatomy.equal_lengths:
        ids = ids[:1]
    found = waves.run(model, ids, {"swap": {"parallel": True}, "drop": None})["swap"]
    assert found["parallel"].values.tolist() == list(range(model.n_blocks - 1))
    for prompt, own in enumerate(ids):
        base = naive.logits(zoo.build(name), own)
        for pair in range(model.n_blocks - 1):
            with in_parallel(zoo.build(name), [(pair, pair + 1)]) as reference:
                expected = statistics(base, naive.logits(reference, own), own)
            got = [float(found[f"{metric}_parallel"][prompt, pair]) for metric in TOKEN_METRICS]
            assert got == pytest.approx(expected, rel=1e-4, abs=1e-5), pair


def test_first_tokens_may_be_protected() -> None:
    """They are on the untouched model's stream behind both blocks, and are so for what comes later."""
    model, (ids,) = waves.loaded("gpt2"), zoo.prompts(zoo.build("gpt2"), (12,))
    found = waves.run(model, [ids], {"swap": {"parallel": True, "protect_first": 3}})["swap"]
    reference = zoo.build("gpt2")
    blocks = naive.blocks_of(reference)
    plain = naive.boundaries(reference, blocks, ids)
    base = naive.logits(reference, ids)

    def protect(_: nn.Module, args: Any, out: Any) -> Any:
        stream = (out[0] if isinstance(out, tuple) else out).clone()
        stream[:, :3] = plain[3, :3]
        return (stream, *out[1:]) if isinstance(out, tuple) else stream

    with in_parallel(reference, [(1, 2)]):
        handle = blocks[2].register_forward_hook(protect)
        expected = statistics(base, naive.logits(reference, ids), ids)
        handle.remove()
    got = [float(found[f"{metric}_parallel"][0, 1]) for metric in TOKEN_METRICS]
    assert got == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_scan_finds_the_pair_that_is_independent() -> None:
    """Blocks 1 and 2 read the same channels and write others; where block 2 reads block 1, all pairs cost."""
    for reads, independent in ((PLACES["read"], [1]), (PLACES["first"], [])):
        hf = two_workers(reads)
        found = waves.run(bathyscope.load(hf), zoo.prompts(hf, LENGTHS), {"swap": {"parallel": True}})["swap"]
        kl = found["kl_parallel"].values.mean(axis=0)
        assert [pair for pair in range(4) if kl[pair] < 1e-10] == independent
        assert all(kl[pair] > 1e-5 for pair in range(4) if pair not in independent)


class Final(Probe):
    """Keeps the final states of its rows."""

    def finish(self, final: FinalStates) -> None:
        self.full = final.full


@pytest.mark.parametrize("call_tokens", [None, 30])
def test_groups_run_wherever_they_stand_in_an_order(call_tokens: int | None) -> None:
    """Rows that wait for the wave, fall behind it, or go back within a group; each against a list of blocks edited."""
    model = waves.loaded("gpt2")
    ids = zoo.prompts(model.hf, (11, 11))
    texts = {
        "order:0-3-1-2-4,parallel:1+2": ([0, 3, 1, 2, 4], [(2, 3)]),
        "order:0-4-1-2-3,parallel:1-3": ([0, 4, 1, 2, 3], [(2, 3, 4)]),
        "swap:1,parallel:1+2": ([0, 2, 1, 3, 4], [(1, 2)]),
        "order:3-0-1-2-4,parallel:3+0+1": ([3, 0, 1, 2, 4], [(0, 1, 2)]),
        "drop:0,parallel:1+2,parallel:3+4": ([1, 2, 3, 4], [(0, 1), (2, 3)]),
        "repeat:4,parallel:0-2": ([0, 1, 2, 3, 4, 4], [(0, 1, 2)]),
    }
    rows = {text: ScheduleRow(Schedule.parse(text, 5)) for text in texts}
    probe = Final(list(rows.values()))
    Wavefront(model.anatomy, tails=False, call_tokens=call_tokens).run(Batch.of(ids), [probe])
    for text, (order, places) in texts.items():
        reference: Any = zoo.entry("gpt2").build()
        reference.transformer.h = nn.ModuleList(reference.transformer.h[block] for block in order)
        with torch.no_grad():
            got = model.anatomy.readout(probe.full[rows[text]])
            with in_parallel(reference, places):
                expected = reference(torch.tensor(ids), use_cache=False).logits
        assert float((got - expected).abs().max() / expected.abs().max()) < 1e-5, text


def test_a_scan_of_orders_runs_groups_too() -> None:
    model = waves.loaded("llama")
    ids = zoo.prompts(model.hf, (12, 9, 10))
    text = "drop:0,parallel:2+3"
    scan = bathyscope.repeat_scan(model, ids, longest=1, orders=["parallel:1+2", text], progress=False)
    table = scan.data.set_index(window="window") if "window" not in scan.data.indexes else scan.data
    assert table["schedule"].sel(window=text).item() == text
    losses = []
    for own in ids:
        base = naive.loss(naive.logits(zoo.build("llama"), own), own).mean()
        with in_parallel(zoo.build("llama"), [(1, 2)]) as reference:
            losses.append(float(naive.loss(naive.logits(reference, own), own).mean() - base))
    assert float(table["cost"].sel(window="parallel:1+2")) == pytest.approx(sum(losses) / 3, rel=1e-4, abs=1e-5)


def test_pairs_that_cannot_run_are_left_out_or_refused() -> None:
    known = waves.facts(waves.loaded("llama"))
    sources = (frozenset[int](), frozenset[int](), frozenset({1}), frozenset[int](), frozenset[int]())
    lending = replace(known, checks=replace(known.checks, sources=sources))
    measure = Swap(SwapOptions(blocks=(0, 3), parallel=True))
    measure.prepare(lending, waves.of_lengths(9), seed=0)
    assert list(measure.further["parallel"].rows) == [0, 3]
    with pytest.warns(
        UserWarning, match=r"block 2 takes the keys and values of block 1.*Left out of swap's parallel: 1"
    ):
        rows = schedules.in_parallel(measure, range(4), lending)
    assert list(rows) == [0, 2, 3]
    streams = waves.facts(waves.loaded("gemma3n"))
    with pytest.raises(ModelError, match=r"several residual streams.*Leave swap's parallel out"):
        Swap(SwapOptions(parallel=True)).prepare(streams, waves.of_lengths(9), seed=0)


def test_what_is_passed_on_is_not_taken_from_a_block_in_parallel() -> None:
    known = waves.facts(waves.loaded("llama")).checks
    checks = replace(known, givers=frozenset({0, 2}), takers=frozenset({1, 3}))
    standard = Schedule.standard(5)
    assert checks.lacking(standard) == ""
    assert checks.lacking(standard.parallel(1, 2)).endswith("and block 2 would run in parallel")
    assert checks.lacking(standard.parallel(3, 4)) == ""
    assert "none would have run before it" in checks.lacking(standard.drop(0))

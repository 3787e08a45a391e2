"""Costs of subsets, parts and repeated windows against one full forward of the real model for each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from support import naive, waves, zoo

from bathyscope.measures.costs import tree_costs
from bathyscope.model import Model
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Tree, Unit, following, twice, without

LENGTHS = (14, 9, 17)
QUICK = ("llama", "gemma2", "gptj")
BROAD = ("qwen3", "gpt2", "olmo2", "bloom", "falcon", "mixtral", "phi", "granite", "mamba")


def subsets(n: int, parts: bool) -> list[list[Unit]]:
    """Singles, pairs, a triple, and parts alone, together and with blocks."""
    found = [[Unit(b)] for b in range(n)]
    found += [[Unit(0), Unit(n - 1)], [Unit(1), Unit(2)], [Unit(n - 2), Unit(n - 1)], [Unit(0), Unit(1), Unit(n - 1)]]
    if parts:
        found += [[Unit(1, "attention")], [Unit(n - 1, "mlp")], [Unit(2, "attention"), Unit(2, "mlp")]]
        found += [[Unit(0, "mlp"), Unit(1), Unit(n - 1, "attention")]]
    return found


def naive_values(name: str, ids: list[int], units: Sequence[Unit] = (), order: Sequence[int] = ()) -> torch.Tensor:
    """Loss, KL and agreement of one prompt, by one forward of the real model."""
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    full = naive.logits(model, ids)
    with ExitStack() as stack:
        if order:
            changed, _ = naive.run_schedule(model, blocks, ids, order)
        else:
            for unit in units:
                stack.enter_context(naive.skipping(model, blocks, unit.block, range(len(ids)), unit.part))
            changed = naive.logits(model, ids)
    values = naive.loss(changed, ids), naive.kl(full, changed)[:-1], naive.agreement(full, changed)[:-1]
    return torch.stack([value.mean() for value in values])


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.thorough) for n in BROAD)])
def test_costs_are_those_of_one_forward_each(name: str) -> None:
    model = waves.loaded(name)
    n, parts = model.n_blocks, model.checks.parts
    asked = subsets(n, parts)
    windows = [(0, 0), (1, 2), (0, n - 1)]
    histories = [without(n, ()), *(without(n, own) for own in asked), *(following(twice(n, *w)) for w in windows)]
    everyone = zoo.prompts(zoo.build(name), LENGTHS)
    groups = [[ids] for ids in everyone] if model.anatomy.equal_lengths else [everyone]
    for ids in groups:
        found = tree_costs(wave(model), Batch.of(ids), Tree(histories), ("loss", "kl", "agreement"))
        alone = tree_costs(wave(model, tokens=1), Batch.of(ids), Tree(histories))
        np.testing.assert_allclose(alone["loss"], found["loss"], atol=1e-5)
        for prompt, own in enumerate(ids):
            wanted = [naive_values(name, own)]
            wanted += [naive_values(name, own, units) for units in asked]
            wanted += [naive_values(name, own, order=twice(n, *w).order) for w in windows]
            got = np.stack([found[metric][:, prompt] for metric in ("loss", "kl", "agreement")], axis=1)
            np.testing.assert_allclose(got, np.stack([w.numpy() for w in wanted]), atol=1e-5)
            assert np.ptp(got[:, 0]) > 1e-3  # leaving blocks out does something


def wave(model: Model, tokens: int | None = None) -> Wavefront:
    return Wavefront(model.anatomy, tails=model.checks.tails, call_tokens=tokens)


@pytest.mark.parametrize("tokens", [1, 100, None])
def test_a_run_makes_exactly_the_calls_of_its_plan(tokens: int | None) -> None:
    """Rows that reach the blocks' own forward are counted, whatever calls they share."""
    model = waves.loaded("llama")
    n, ids = model.n_blocks, zoo.prompts(zoo.build("llama"), (12, 12))
    pairs = [[Unit(a)] for a in range(n)] + [[Unit(a), Unit(b)] for a in range(n) for b in range(a + 1, n)]
    tree = Tree.leaving_out(n, pairs)
    rows = [0] * n
    handles = [
        block.register_forward_pre_hook(lambda _m, args, i=i: rows.__setitem__(i, rows[i] + len(args[0])))
        for i, block in enumerate(model.anatomy.blocks)
    ]
    told: list[int] = []
    try:
        run = wave(model, tokens)
        batch = Batch.of(ids)
        run.anatomy.replay(batch.ids_BT)  # what recording needs is made once
        rows[:] = [0] * n
        run.anatomy.replay(batch.ids_BT)  # stubs in the blocks' place have their hooks called too
        stubs = sum(rows)
        tree_costs(run, batch, tree, step=told.append)
    finally:
        for handle in handles:
            handle.remove()
    assert (
        sum(rows) - 2 * stubs == tree.calls * len(ids) == (n * (n - 1) * (n - 2) // 6 + n * (n - 1) // 2 + n) * len(ids)
    )
    assert told[-1] == tree.calls
    assert told == sorted(told)


def test_states_that_wait_are_bounded() -> None:
    """Never more histories wait than some calls hold and the first history's boundaries have branches."""
    from bathyscope.wavefront import histories as module

    model = waves.loaded("llama")
    n = model.n_blocks
    most = 0

    class Counting(module.TreeRun):
        def _chosen(self):  # type: ignore[no-untyped-def]
            nonlocal most
            most = max(most, len({id(w.resid_BTD) for stack in self._waiting.values() for w in stack}))
            return super()._chosen()

    every = [[Unit(b) for b in range(n) if mask >> b & 1] for mask in range(1, 2**n - 1)]
    plan = Tree.leaving_out(n, every)
    Counting(wave(model, tokens=1), Batch.of([[5, 6, 7, 8]])).run(plan, lambda numbers, state: None)
    assert most <= 2 * n < len(every)


def test_answers_are_right_where_all_their_tokens_are_most_probable() -> None:
    model = waves.loaded("llama")
    hf = zoo.build("llama")
    [ids] = zoo.prompts(hf, (10,))
    top = naive.logits(hf, ids).argmax(-1)
    ids = [*ids[:9], int(top[8])]
    wrong = [*ids[:9], (int(top[8]) + 1) % hf.config.vocab_size]
    batch = Batch.of([ids, wrong, ids], answers=[1, 1, None])
    found = tree_costs(wave(model), batch, Tree([following(Schedule.standard(model.n_blocks))]), ("loss", "right"))
    np.testing.assert_array_equal(found["right"], [[1.0, 0.0, np.nan]])

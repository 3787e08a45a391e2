"""Replaced rows in the wavefront: how they are grouped, what they share, and how much is held at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from support import naive, waves, zoo
from support.lending import noting
from support.rounding import bound_of_shares, rounding
from torch import Tensor

from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView, FinalStates, ReplacedStates
from bathyscope.wavefront.replace import Group, group_size, plan_sweeps
from bathyscope.wavefront.rows import Replacement, SkipRow

POLICY = CallPolicy(4800, control_in_every_call=False)
LENGTHS = (14, 9, 17)


class Landings(Probe):
    """Keeps what lands, by prompt: final states of the rows [boundary, erased token, token, width], NaN before t."""

    def __init__(self, replacements: Sequence[Replacement], requests: Sequence[SkipRow] = ()) -> None:
        super().__init__(requests, replacements=replacements)
        self.groups: list[tuple[Replacement, Sequence[range], int]] = []
        self.states: dict[int, Tensor] = {}
        self.control_gap = 0.0
        self.boundaries: list[Tensor] = []

    def baseline(self, view: BaselineView) -> None:
        self.boundaries.append(view.before_BTD)

    def finish(self, final: FinalStates) -> None:
        self.boundaries.append(final.baseline_BTD)

    def landed(self, states: ReplacedStates) -> None:
        self.groups.append((states.replacement, states.spans, states.start))
        n_blocks, _, own, width = states.rows_LSND.shape
        shape = (n_blocks, len(states.replacement.spans), states.start + own, width)
        kept = self.states.setdefault(states.replacement.prompt, torch.full(shape, torch.nan))
        for index, token in enumerate(span.start for span in states.spans):
            kept[:, token, token:] = states.rows_LSND[:, index, token - states.start :]
            before = states.rows_LSND[:, index, : token - states.start]
            torch.testing.assert_close(before, states.control_ND[: before.shape[1]].expand_as(before))
        gap = (states.control_ND - states.baseline_ND).abs().max() / states.baseline_ND.abs().max()
        self.control_gap = max(self.control_gap, float(gap))


def values(name: str, seed: int = 0) -> Tensor:
    model = waves.loaded(name)
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(model.n_blocks + 1, model.anatomy.width, generator=draw)


def each_token(prompt: int, tokens: int, stop: int, values_LD: Tensor) -> Replacement:
    """One token after another takes the same value."""
    spans = [range(token, token + 1) for token in range(tokens)]
    return Replacement(prompt, spans, stop, values_LD[:, None].expand(-1, stop, -1))


def swept(name: str, ids: Sequence[Sequence[int]], given: Tensor | None = None, **options: object) -> Landings:
    model = waves.loaded(name)
    erased = values(name) if given is None else given
    probe = Landings([each_token(p, len(own) - 1, len(own), erased) for p, own in enumerate(ids)])
    wave = Wavefront(model.anatomy, **{"tails": model.checks.tails, **options})  # type: ignore[arg-type]
    wave.run(Batch.of(ids), [probe])
    return probe


def assert_same_rows(one: Landings, other: Landings, allowed: float = 1e-5) -> None:
    assert one.states.keys() == other.states.keys()
    for prompt, rows in one.states.items():
        gap = (rows - other.states[prompt]).norm(dim=-1) / other.states[prompt].norm(dim=-1)
        assert float(gap.nan_to_num(0).max()) < allowed
        assert torch.equal(rows.isnan(), other.states[prompt].isnan())


# --- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "gemma4", "gpt2", "lfm2"])
def test_a_row_that_gets_its_own_value_is_the_plain_forward(name: str) -> None:
    """Each token in turn is given what it has anyway; all tokens of its row must then end as they do anyway."""
    (ids,) = zoo.prompts(zoo.build(name), (11,))
    h = naive.boundaries(zoo.build(name), naive.blocks_of(zoo.build(name)), ids)
    for token in (0, 4, 9):
        rows = swept(name, [ids], h[:, token]).states[0][:, token, token:]
        gap = (rows - h[-1, token:]).norm(dim=-1) / h[-1, token:].norm(dim=-1)
        assert float(gap.max()) < 1e-5


class OwnValues(Probe):
    """Fills in, block after block, what the prompt has anyway, times a factor."""

    def __init__(self, one: Replacement, factor: float) -> None:
        super().__init__(replacements=[one], wants_parts=True)
        self.factor, self.landings = factor, list[ReplacedStates]()

    def baseline(self, view: BaselineView) -> None:
        (one,) = self.replacements
        own = {"block": view.before_BTD, "attention": view.attention_BTD, "mlp": view.mlp_BTD}[one.part]
        assert own is not None
        one.values_LTD[view.block] = self.factor * own[0, : one.values_LTD.shape[1]]

    def landed(self, states: ReplacedStates) -> None:
        self.landings.append(states)


@pytest.mark.parametrize("part", ["block", "attention", "mlp"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma4", "falcon_alibi"])
def test_what_is_replaced_by_itself_changes_nothing(name: str, part: str) -> None:
    """Whatever the span; and by its half it does."""
    model = waves.loaded(name)
    (ids,) = zoo.prompts(model.hf, (11,))
    spans = [range(0, 10), range(1, 2), range(4, 7), range(9, 10)]
    for factor in (1.0, 0.5):
        given = torch.zeros(model.n_blocks, 10, model.anatomy.width)
        probe = OwnValues(Replacement(0, spans, 11, given, part), factor)
        Wavefront(model.anatomy, tails=True).run(Batch.of([ids]), [probe])
        assert [span for states in probe.landings for span in states.spans] == spans
        for states in probe.landings:
            gap = (states.rows_LSND - states.control_ND).norm(dim=-1) / states.control_ND.norm(dim=-1)
            assert float(gap.max()) < 1e-5 if factor == 1 else bool((gap.amax(-1) > 1e-3).all())


@pytest.mark.parametrize("name", ["llama", "ministral", "bloom", "gemma4", "qwen3_moe", "deepseek_v3"])
def test_tails_and_full_rows_agree(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    tails, full = swept(name, ids), swept(name, ids, tails=False)
    assert {start for _, _, start in full.groups} == {0}
    assert len({start for _, _, start in tails.groups}) > 1
    assert_same_rows(tails, full, bound_of_shares(zoo.build(name)))


@pytest.mark.parametrize("name", ["llama", "gemma4", "lfm2", "llama_dynamic"])
def test_however_little_room_there_is_the_numbers_are_the_same(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), (13, 13) if name == "llama_dynamic" else LENGTHS)
    roomy, tight = swept(name, ids), swept(name, ids, replacement_bytes=1)
    assert len(tight.groups) == sum(len(own) - 1 for own in ids) > len(roomy.groups)
    # a smaller room is smaller products, which some processors round differently
    assert_same_rows(roomy, tight, 1e-5 + 5 * rounding(zoo.build(name), [max(map(len, ids))]))
    assert tight.control_gap < 1e-5


@pytest.mark.parametrize("call_tokens", [1, 37, 400])
def test_the_size_of_calls_changes_nothing(call_tokens: int) -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    assert_same_rows(swept("llama", ids), swept("llama", ids, call_tokens=call_tokens))


def test_prompts_of_a_batch_do_not_matter_to_each_other() -> None:
    ids = zoo.prompts(zoo.build("gemma4"), LENGTHS)
    together = swept("gemma4", ids)
    for prompt, own in enumerate(ids):
        alone = swept("gemma4", [own])
        alone.states = {prompt: alone.states[0]}
        together_one = Landings([])
        together_one.states = {prompt: together.states[prompt]}
        assert_same_rows(together_one, alone)


def test_a_probe_is_shown_its_own_rows_only() -> None:
    model = waves.loaded("llama")
    ids = zoo.prompts(model.hf, (9, 6))
    first, second = (
        Landings([each_token(0, 8, 8, values("llama"))]),
        Landings([each_token(1, 3, 4, values("llama", 1))]),
    )
    neither = Landings([], [SkipRow(1)])
    Wavefront(model.anatomy, tails=True).run(Batch.of(ids), [first, second, neither])
    assert {one.prompt for one, _, _ in first.groups} == {0}
    assert [span.start for _, spans, _ in second.groups for span in spans] == [0, 1, 2]
    assert second.states[1].shape[1:3] == (3, 4)
    assert neither.groups == []


# --- order and room --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "sweeps"), [(None, 1), (1, 8), (4 * 5 * 9 * 64 * 4, 2)])
def test_blocks_are_visited_in_order_once_for_every_sweep(room: int | None, sweeps: int) -> None:
    model = waves.loaded("llama")
    assert (model.n_blocks, model.anatomy.width) == (5, 64)
    (ids,) = zoo.prompts(model.hf, (9,))
    done: list[tuple[int, int]] = []
    wave = Wavefront(model.anatomy, tails=True, replacement_bytes=room)
    with noting(model.anatomy.blocks) as lender:
        wave.run(Batch.of([ids]), [Landings([each_token(0, 8, 9, values("llama"))])], lambda *at: done.append(at))
    assert lender.asked == list(range(5)) * sweeps
    assert done == [(block + 1, 5 * sweeps) for block in range(5 * sweeps)]


VECTOR_BYTES = 1024


def size_of(group: Group, n_blocks: int = 24) -> int:
    """Of all states of a group's rows, for every boundary before the last."""
    return len(group.spans) * n_blocks * (group.stop - group.start) * VECTOR_BYTES


def planned(lengths: Sequence[int], room: int, *, tails: bool = True, n_blocks: int = 24) -> list[list[Group]]:
    return plan_sweeps(
        [each_token(p, n - 1, n, torch.zeros(1, 1)) for p, n in enumerate(lengths)],
        lengths,
        n_blocks=n_blocks,
        vector_bytes=VECTOR_BYTES,
        policy=POLICY,
        tails=tails,
        call_cost=50,
        room=room,
    )


@pytest.mark.parametrize("tails", [True, False])
@pytest.mark.parametrize("room", [1, 1 << 20, 1 << 24, 1 << 40])
def test_every_token_is_replaced_once_within_the_room(tails: bool, room: int) -> None:
    lengths = (40, 2, 64, 17)
    sweeps = planned(lengths, room, tails=tails)
    groups = [group for sweep in sweeps for group in sweep]
    for prompt, length in enumerate(lengths):
        spans = [span for group in groups if group.replacement.prompt == prompt for span in group.spans]
        own = [token for span in spans for token in span]
        assert own == list(range(length - 1))
    assert all(group.start == (group.spans[0].start if tails else 0) for group in groups)
    for sweep in sweeps:
        assert sum(map(size_of, sweep)) <= room or (len(sweep) == 1 and len(sweep[0].spans) == 1)
    for sweep, following in pairwise(sweeps):
        assert sum(map(size_of, sweep)) + size_of(following[0]) > room


@pytest.mark.parametrize(("tokens", "n_blocks"), [(39, 24), (64, 24), (64, 32), (200, 28), (500, 48)])
def test_groups_compute_few_tokens_in_vain(tokens: int, n_blocks: int) -> None:
    groups = planned([tokens], 1 << 50, n_blocks=n_blocks)[0]
    needed = sum(tokens - token for token in range(tokens - 1))
    computed = sum(len(group.spans) * (tokens - group.start) for group in groups)
    assert computed <= 1.1 * needed


@pytest.mark.parametrize(("own", "n_blocks", "cost"), [(39, 24, 50), (64, 32, 50), (200, 12, 50), (64, 24, 4000)])
def test_the_size_of_groups_costs_least(own: int, n_blocks: int, cost: int) -> None:
    """Against the cost of every other size, group by group."""

    def cost_of(size: int) -> float:
        total = 0.0
        for first in range(0, own, size):
            erased, held = min(size, own - first), own - first
            total += n_blocks * (cost + held) + erased * held * n_blocks * (n_blocks + 1) / 2
        return total

    best = min(cost_of(size) for size in range(1, own + 1))
    assert cost_of(group_size(own, n_blocks, cost)) <= 1.02 * best

"""The wavefront as a whole: plain forward, control, stragglers, sizes of calls, order of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from support import naive, waves, zoo
from support.lending import noting
from support.rounding import assert_same_bits, assert_same_but_rounding, bound_of_shares, rounding
from torch import Tensor, nn

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView, FinalStates, RowsView
from bathyscope.wavefront.rows import Request, ScheduleRow, SkipBefore, SkipRow

RAGGED = (14, 9, 17)


class Keeper(Probe):
    """Keeps the boundaries, every view of rows and the final states."""

    def __init__(self, requests: Sequence[Request] = ()) -> None:
        super().__init__(requests)
        self.boundaries: list[Tensor] = []
        self.views: list[RowsView] = []
        self.blocks_done: list[int] = []

    def baseline(self, view: BaselineView) -> None:
        self.boundaries.append(view.before_BTD)

    def rows(self, view: RowsView) -> None:
        self.views.append(view)

    def block_done(self, block: int) -> None:
        self.blocks_done.append(block)

    def finish(self, final: FinalStates) -> None:
        self.final = final


def swept(name: str, ids: Sequence[Sequence[int]], requests: Sequence[Request] = (), **options: object) -> Keeper:
    model = waves.loaded(name)
    keeper = Keeper(requests)
    wave = Wavefront(model.anatomy, **{"tails": model.checks.tails, **options})  # type: ignore[arg-type]
    wave.run(Batch.of(ids), [keeper])
    return keeper


def logits(name: str, resid_TD: Tensor) -> Tensor:
    with torch.no_grad():
        return waves.loaded(name).anatomy.readout(resid_TD)


@pytest.mark.contract
@pytest.mark.parametrize("name", zoo.names())
def test_the_standard_schedule_is_the_untouched_model(name: str) -> None:
    """In one batch of the same shape, bit for bit; the control beside many rows is the same up to rounding.

    So are logits where what is read out is laid out otherwise than the stream that blocks pass on.
    """
    model = waves.loaded(name)
    ids = zoo.prompts(model.hf, (17, 17))
    with torch.no_grad():
        expected = model.hf(torch.tensor(ids), use_cache=False).logits
    rows = [SkipRow(block) for block in range(model.n_blocks)]
    final = swept(name, ids, rows).final
    compare = assert_same_bits if model.anatomy.streams is None else partial(assert_same_but_rounding, hf=model.hf)
    compare(logits(name, final.baseline_BTD), expected)
    gap = (final.control_BTD - final.baseline_BTD).norm(dim=-1) / final.baseline_BTD.norm(dim=-1)
    assert gap.max() < bound_of_shares(model.hf)


@pytest.mark.parametrize("name", ["llama", "gemma4", "qwen3_moe", "bloom"])
def test_the_bound_of_shares_holds_the_noise_that_a_run_states(name: str) -> None:
    model = waves.loaded(name)
    run = bathyscope.survey(model, zoo.prompts(model.hf, (17, 14)), ["skip"], progress=False)
    stated = float(run["noise"].floor.sel(measure="skip"))
    assert 0 <= stated < bound_of_shares(model.hf) < 1e-3


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "falcon", "olmo2"])
def test_the_control_of_a_dense_model_is_the_baseline_itself(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), RAGGED)
    rows = [SkipRow(block) for block in range(5)] + [ScheduleRow(Schedule.standard(5).swap(1))]
    keeper, left = swept(name, ids, rows), rounding(zoo.build(name), RAGGED)
    pairs = [(keeper.final.control_BTD, keeper.final.baseline_BTD)]
    pairs += [(view.control_before, view.baseline_before) for view in keeper.views]
    pairs += [(view.control_after, view.baseline_after) for view in keeper.views]
    for control, baseline in pairs:
        assert (control - baseline).abs().max() <= left * baseline.abs().max()


EXOTIC = [
    "order:4-3-2-1-0",
    "order:1-0-3-2-4",
    "order:0-0-0-1-2-3-4",
    "order:4-4",
    "order:2",
    "order:0-4-1-4-2",
    "order:0-1-2-3-4-0-1-2-3-4",
    "repeat:0+5x2",
    "drop:0,drop:4",
    "drop:2,swap:0",
    "standard",
]


@pytest.mark.parametrize("name", ["llama", "gpt2", "ministral", "bloom", "qwen3_moe", "lfm2"])
def test_rows_that_fall_behind_catch_up(name: str) -> None:
    """Any order of blocks, all at once, against the model run in that order."""
    model = zoo.build(name)
    blocks, bound = naive.blocks_of(model), bound_of_shares(model)
    ids = zoo.prompts(model, RAGGED)
    schedules = [Schedule.parse(text, len(blocks)) for text in EXOTIC]
    final = swept(name, ids, [ScheduleRow(schedule) for schedule in schedules]).final
    for prompt, own in enumerate(ids):
        recorded = naive.record(model, blocks, own)
        for schedule in schedules:
            expected, _ = naive.run_schedule(model, blocks, own, list(schedule), recorded)
            got = logits(name, final.full[ScheduleRow(schedule)][prompt, : len(own)])
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=bound, msg=lambda m, s=schedule: f"{s}: {m}")


def test_no_block_at_all_is_the_embedding() -> None:
    nothing = ScheduleRow(Schedule((), 5))
    keeper = swept("llama", zoo.prompts(zoo.build("llama"), (9,)), [nothing])
    assert torch.equal(keeper.final.full[nothing], keeper.boundaries[0])


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_protected_tokens_keep_the_standard_stream_at_every_slot(name: str) -> None:
    """Against the model run block by block, its first tokens put back after each."""
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    (ids,) = zoo.prompts(model, (11,))
    base = naive.boundaries(model, blocks, ids)
    order, protect = naive.swap_order(5, 1), 2
    row = ScheduleRow(Schedule(tuple(order), 5), protect)
    final = swept(name, [ids], [row]).final
    slots = iter(range(1, 6))

    def keep_first(_module: nn.Module, _args: object, output: Tensor | tuple[Tensor, ...]) -> None:
        state = output if isinstance(output, Tensor) else output[0]
        state[:, :protect] = base[next(slots)][:protect]

    swapped = [blocks[index] for index in order]
    handles = [block.register_forward_hook(keep_first) for block in swapped]
    try:
        with permuted(blocks, order):
            expected = naive.logits(model, ids)
    finally:
        for handle in handles:
            handle.remove()
    got = logits(name, final.full[row][0])
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(final.full[row][0, :protect], final.control_BTD[0, :protect])
    assert not torch.equal(got[protect:], naive.logits(model, ids)[protect:])


def test_rows_that_protect_more_and_less_do_not_matter_to_each_other() -> None:
    ids = zoo.prompts(zoo.build("llama"), RAGGED)
    rows = [ScheduleRow(Schedule.standard(5).swap(block), protect) for block in (1, 2) for protect in (0, 1, 4)]
    final = swept("llama", ids, rows).final
    for row in rows:
        alone = swept("llama", ids, [row]).final
        torch.testing.assert_close(final.full[row], alone.full[row], rtol=1e-5, atol=1e-5)
        assert torch.equal(final.full[row][:, : row.protect], final.control_BTD[:, : row.protect])
        assert not torch.equal(final.full[row][:, row.protect], final.control_BTD[:, row.protect])


@pytest.mark.parametrize("name", ["llama", "bloom"])
@pytest.mark.parametrize("own_control", [False, True])
def test_parts_are_left_out_of_their_own_rows_whatever_the_calls(name: str, own_control: bool) -> None:
    """A control that rides in every call must shift neither what rows leave out nor what they pass on."""
    ids = zoo.prompts(zoo.build(name), RAGGED)
    rows: list[Request] = [SkipRow(s, 1, part) for part in ("attention", "mlp", "block") for s in range(5)]
    expected = swept(name, ids, rows).final.full
    model, keeper = waves.loaded(name), Keeper(rows)
    wave = Wavefront(model.anatomy, tails=True)
    wave.policy = CallPolicy(tokens=3 * 3 * 17, control_in_every_call=own_control)
    wave.run(Batch.of(ids), [keeper])
    for row in rows:
        torch.testing.assert_close(keeper.final.full[row], expected[row], rtol=1e-5, atol=1e-5)
    assert len({tuple(state.flatten().tolist()) for state in expected.values()}) == len(rows)


@contextmanager
def permuted(blocks: nn.ModuleList, order: Sequence[int]) -> Iterator[None]:
    """The live list of blocks in another order, for families whose blocks all get the same arguments."""
    originals = list(blocks)
    for slot, index in enumerate(order):
        blocks[slot] = originals[index]
    try:
        yield
    finally:
        for slot, block in enumerate(originals):
            blocks[slot] = block


@pytest.mark.parametrize("name", ["llama", "gemma4", "mixtral", "bloom"])
def test_the_size_of_calls_does_not_matter(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), RAGGED)
    options = {
        "skip": {"positions": [[5, 8], [1], [16]]},
        "drop": {"blocks": [0, 4]},
        "swap": None,
        "repeat": {"length": 3},
    }
    large = waves.run(waves.loaded(name), ids, options, call_tokens=100_000)
    small = waves.run(waves.loaded(name), ids, options, call_tokens=1)
    for measure, dataset in large.items():
        for variable, values in dataset.data_vars.items():
            gap = abs(values - small[measure][variable])
            assert float(gap.max()) <= 1e-5, f"{measure}.{variable}"


@pytest.mark.parametrize("name", ["llama", "ministral", "bloom", "gemma4", "deepseek_v3", "mpt", "gpt_neo"])
def test_tails_and_full_rows_show_the_same(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), RAGGED)
    requests = [SkipBefore(s, p, t) for s in range(5) for p, t in ((0, 5), (0, 13), (1, 4), (2, 16), (2, 1))]
    found = [swept(name, ids, requests, tails=tails) for tails in (True, False)]
    shown = [observed(keeper) for keeper in found]
    assert shown[0].keys() == shown[1].keys()
    assert {(request.block, block) for request, block in shown[0]} == {
        (s, block) for s in range(4) for block in range(s + 1, 5)
    }
    for key, state in shown[0].items():
        torch.testing.assert_close(state, shown[1][key], rtol=1e-5, atol=1e-5)
    finals = [{(t.prompt, t.start): t for t in keeper.final.tails} for keeper in found]
    for key, tail in finals[0].items():
        assert len(tail.control_ND) == len(ids[key[0]]) - key[1]
        assert tail.rows.keys() == finals[1][key].rows.keys()
        assert {request.block for request in tail.rows} == {0, 1, 2, 3}  # nothing later is left to see the last
        for request, state in tail.rows.items():
            torch.testing.assert_close(state, finals[1][key].rows[request], rtol=1e-5, atol=1e-5)


def test_tails_that_begin_late_have_what_earlier_blocks_passed_on() -> None:
    """Blocks 3 and 4 of this Gemma take the keys and values of blocks 1 and 2, which no tail runs."""
    ids = zoo.prompts(zoo.build("gemma4"), RAGGED)
    requests = [SkipBefore(s, p, t) for s in (2, 3) for p, t in ((0, 5), (2, 16))]
    tails, full = (observed(swept("gemma4", ids, requests, tails=use)) for use in (True, False))
    assert {(request.block, block) for request, block in tails} == {(2, 3), (2, 4), (3, 4)}
    for key, state in tails.items():
        torch.testing.assert_close(state, full[key], rtol=1e-5, atol=1e-5)


def observed(keeper: Keeper) -> dict[tuple[SkipBefore, int], Tensor]:
    """What was shown of every tail: (request, block) → its own tokens after the block."""
    return {
        (request, view.block): view.after[row, 0]
        for view in keeper.views
        if view.prompt is not None
        for row, served in enumerate(view.requests)
        for request in served
        if isinstance(request, SkipBefore)
    }


def asked(requests: Sequence[Request]) -> list[int]:
    """The blocks in the order in which they were asked for, none of them further back than was said."""
    anatomy = waves.loaded("llama").anatomy
    ids = zoo.prompts(zoo.build("llama"), (9, 9))
    with noting(anatomy.blocks) as lender:
        Wavefront(anatomy, tails=True).run(Batch.of(ids), [Keeper(requests)])
    back = [max(lender.asked[: at + 1]) - block + 1 for at, block in enumerate(lender.asked)]
    assert max(back) <= lender.window <= max(back) + 1
    return lender.asked


def test_blocks_are_asked_for_once_and_in_order() -> None:
    assert asked([]) == [0, 1, 2, 3, 4]
    skips: list[Request] = [SkipRow(s, protect) for s in range(5) for protect in (0, 1)]
    assert asked([*skips, SkipBefore(1, 0, 4), SkipBefore(3, 1, 8)]) == [0, 1, 2, 3, 4]


def test_stragglers_look_back_as_little_as_they_need() -> None:
    standard = Schedule.standard(5)
    assert asked([ScheduleRow(standard.swap(1))]) == [0, 1, 2, 1, 3, 4]
    assert asked([ScheduleRow(standard.swap(3))]) == [0, 1, 2, 3, 4, 3]
    assert asked([ScheduleRow(standard.repeat(2))]) == [0, 1, 2, 3, 2, 4]
    # who is furthest behind goes first, and takes along whoever it meets
    behind = [ScheduleRow(Schedule.parse(text, 5)) for text in ("order:0-1-2-3-1-2-3-4", "order:0-1-2-3-2-3-4")]
    assert asked(behind) == [0, 1, 2, 3, 4, 1, 2, 3]
    everything = [ScheduleRow(standard.swap(b)) for b in range(4)]
    everything += [ScheduleRow(standard.repeat(b, 2)) for b in range(4)]
    order = asked(everything)
    firsts = list(dict.fromkeys(order))
    assert firsts == [0, 1, 2, 3, 4]
    for at, block in enumerate(order):
        assert block >= max(order[: at + 1]) - 2


def test_probes_see_blocks_in_order_and_only_what_they_asked_for() -> None:
    name = "llama"
    ids = zoo.prompts(zoo.build(name), RAGGED)
    model = waves.loaded(name)
    one, other = Keeper([SkipRow(1), SkipBefore(1, 2, 6)]), Keeper([SkipRow(3)])
    steps: list[tuple[int, int]] = []
    wave = Wavefront(model.anatomy, tails=True)
    wave.run(Batch.of(ids), [one, other], lambda done, blocks: steps.append((done, blocks)))
    assert steps == [(done, 5) for done in range(1, 6)]
    assert one.blocks_done == other.blocks_done == list(range(5))
    for keeper, first in ((one, 2), (other, 4)):
        assert [view.block for view in keeper.views] == sorted(view.block for view in keeper.views)
        assert {view.block for view in keeper.views} == set(range(first, 5))
        for view in keeper.views:
            shown = {request for served in view.requests for request in served}
            assert shown & set(keeper.requests)
    expected = naive.boundaries(model.hf, naive.blocks_of(model.hf), ids[2])
    torch.testing.assert_close(torch.stack(one.boundaries)[:, 2], expected[:-1], rtol=1e-5, atol=1e-5)


def test_skipped_blocks_are_seen_at_every_later_one_whoever_begins_alike() -> None:
    """Swapping a block and skipping it run the same block first; the call is made once, and is the skip's to show."""
    ids = zoo.prompts(zoo.build("llama"), (9,))
    swap, skip = ScheduleRow(Schedule.standard(5).swap(1)), SkipRow(1, 0)
    keeper = swept("llama", ids, [swap, skip])
    seen = [(view.block, request) for view in keeper.views for served in view.requests for request in served]
    assert [block for block, request in seen if request == skip] == [2, 3, 4]
    assert [block for block, request in seen if request == swap] == [3, 4]


def test_low_precision_measures_its_noise() -> None:
    model = load(zoo.entry("llama").build(dtype=torch.bfloat16))
    ids = zoo.prompts(model.hf, RAGGED)
    keeper = Keeper([SkipRow(s) for s in range(5)])
    Wavefront(model.anatomy, tails=True, call_tokens=100).run(Batch.of(ids), [keeper])
    for view in keeper.views:
        assert view.before.shape[1:] == view.control_before.shape
        assert view.after.dtype == torch.bfloat16
    gap = (keeper.final.control_BTD - keeper.final.baseline_BTD).float().norm(dim=-1)
    assert (gap / keeper.final.baseline_BTD.float().norm(dim=-1)).max() < 0.02


def test_an_overflow_names_its_block() -> None:
    hf = zoo.entry("llama").build()
    model = load(hf)
    with torch.no_grad():
        naive.blocks_of(hf)[3].mlp.down_proj.weight.fill_(3e38)
    with pytest.raises(ModelError, match=r"Block 3 gives NaN or Inf on this input in float32; load the model with"):
        Wavefront(model.anatomy, tails=True).run(Batch.of(zoo.prompts(hf, (9,))), [Keeper()])


def test_dropout_is_off_while_blocks_run_and_back_on_afterwards() -> None:
    hf = zoo.entry("gpt2").build()
    model = load(hf)
    hf.train()
    naive.blocks_of(hf)[0].eval()
    keeper = Keeper()
    Wavefront(model.anatomy, tails=True).run(Batch.of(zoo.prompts(hf, (9,))), [keeper])
    assert hf.training
    assert [block.training for block in naive.blocks_of(hf)] == [False, True, True, True, True]
    assert any(isinstance(m, nn.Dropout) and m.p > 0 for m in hf.modules())
    expected = naive.boundaries(hf.eval(), naive.blocks_of(hf), zoo.prompts(hf, (9,))[0])
    torch.testing.assert_close(keeper.final.baseline_BTD[0], expected[-1], rtol=1e-5, atol=1e-5)

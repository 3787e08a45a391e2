"""Compiled tracks against the set of distinct histories, found by writing every history out in full."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.errors import OptionError
from bathyscope.schedule import Schedule
from bathyscope.wavefront.plan import Birth, Fork, Track, compile_tracks
from bathyscope.wavefront.rows import Request, ScheduleRow, SkipBefore, SkipRow


def executed(tracks: Sequence[Track]) -> int:
    """Block calls that the tracks make themselves."""
    return sum(len(track.steps) - track.done_at_birth for track in tracks)


def distinct_histories(orders: Sequence[Sequence[int]]) -> int:
    """Different beginnings of the orders that the plain forward does not have."""
    beginnings = {tuple(order[: k + 1]) for order in orders for k in range(len(order))}
    return sum(beginning != tuple(range(len(beginning))) for beginning in beginnings)


def full_order(track: Track) -> list[int]:
    """What a track's history has run since the embedding."""
    return [*range(track.birth.boundary), *track.steps]


def check_forks(tracks: Sequence[Track]) -> None:
    """Every fork begins where another track with the same beginning has got to."""
    for track in tracks:
        if isinstance(track.origin, Fork):
            parent = tracks[track.origin.track]
            assert track.done_at_birth == track.origin.steps
            assert parent.done_at_birth <= track.origin.steps <= len(parent.steps)
            assert parent.steps[: track.origin.steps] == track.steps[: track.origin.steps]
            assert parent.birth == track.birth
        else:
            assert track.origin == track.birth
            assert track.done_at_birth == 0


@pytest.mark.parametrize("n_blocks", range(2, 9))
def test_drop_swap_and_repeat_share_all_they_can(n_blocks: int) -> None:
    standard = Schedule.standard(n_blocks)
    drops = {block: standard.drop(block) for block in range(n_blocks)}
    others = [standard.swap(block) for block in range(n_blocks - 1)]
    others += [standard.repeat(block, length) for length in (1, 2) for block in range(n_blocks - length + 1)]
    requests: list[Request] = [SkipRow(block, 0) for block in drops]
    requests += [ScheduleRow(schedule) for schedule in others]
    tracks = compile_tracks(requests, n_blocks, batch=2)
    orders = [*drops.values(), *others]
    assert executed(tracks) == distinct_histories([list(order) for order in orders])
    assert executed(tracks) < sum(len(order) - order.clean_prefix for order in orders)
    check_forks(tracks)
    served = {request: full_order(track) for track in tracks for request in track.requests}
    for block, schedule in drops.items():
        assert served[SkipRow(block, 0)] == list(schedule)
    for schedule in others:
        assert served[ScheduleRow(schedule)] == list(schedule)


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.lists(st.integers(0, n - 1), max_size=n + 2).map(tuple), unique=True, max_size=12),
        )
    )
)
def test_any_schedules_share_all_they_can(case: tuple[int, list[tuple[int, ...]]]) -> None:
    n_blocks, orders = case
    requests = [ScheduleRow(Schedule(order, n_blocks)) for order in orders]
    tracks = compile_tracks(requests, n_blocks, batch=1)
    check_forks(tracks)
    assert executed(tracks) == distinct_histories(orders)
    served = {request: full_order(track) for track in tracks for request in track.requests}
    assert served == {request: list(request.schedule) for request in requests}


def test_the_longest_schedules_take_memory_by_their_length_alone() -> None:
    rows = [ScheduleRow(Schedule.standard(4).repeat(block, 1, 9990)) for block in range(4)]
    tracemalloc.start()
    tracks = compile_tracks(rows, 4, batch=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(track.steps) for track in tracks] == [9993, 9992, 9991, 9990]
    assert peak < 40 << 20


def test_drop_and_swap_of_a_block_are_one_until_they_part() -> None:
    standard = Schedule.standard(6)
    drop, swap = compile_tracks([SkipRow(2, 0), ScheduleRow(standard.swap(2))], 6, batch=1)
    assert (drop.origin, drop.steps) == (Birth(2), (3, 4, 5))
    assert (swap.origin, swap.steps, swap.done_at_birth) == (Fork(0, 1), (3, 2, 4, 5), 1)


def test_blocks_in_parallel_are_one_step() -> None:
    standard = Schedule.standard(6)
    alone, drop, both = compile_tracks(
        [ScheduleRow(standard.parallel(2, 3)), SkipRow(2, 0), ScheduleRow(standard.parallel(2, 3).drop(5))], 6, batch=1
    )
    assert (alone.origin, alone.steps) == (Birth(2), ((2, 3), 4, 5))
    assert (drop.origin, drop.steps) == (Birth(2), (3, 4, 5))
    assert (both.origin, both.steps, both.done_at_birth) == (Fork(0, 2), ((2, 3), 4), 2)
    assert alone.window == drop.window == 1
    (back,) = compile_tracks([ScheduleRow(standard.swap(2).parallel(2, 3))], 6, batch=1)
    assert (back.steps, back.window) == (((3, 2), 4, 5), 2)


def test_equal_histories_are_one_track() -> None:
    drop = Schedule.standard(4).drop(3)
    (track,) = compile_tracks([SkipRow(3, 0), ScheduleRow(drop)], 4, batch=1)
    assert track.requests == [SkipRow(3, 0), ScheduleRow(drop)]
    assert executed([track]) == 0


def test_protected_rows_are_never_shared_with_unprotected_ones() -> None:
    swap = Schedule.standard(4).swap(1)
    rows = [ScheduleRow(swap), ScheduleRow(swap, protect=1), SkipRow(1, 0), SkipRow(1, 1)]
    tracks = compile_tracks(rows, 4, batch=1)
    owned = {request: track for track in tracks for request in track.requests}
    assert len({id(track) for track in owned.values()}) == 4
    assert owned[ScheduleRow(swap, protect=1)].birth == Birth(1, protect=1)
    assert owned[SkipRow(1, 1)].birth == Birth(2, skips="block", protect=1)
    assert owned[SkipRow(1, 1)].steps == (2, 3)


def test_one_full_row_serves_one_start_of_every_prompt() -> None:
    starts = {0: [3, 5, 7], 1: [4], 2: []}
    befores = [SkipBefore(1, prompt, t) for prompt, own in starts.items() for t in own]
    tracks = compile_tracks(befores, 4, batch=3)
    assert len(tracks) == 3
    assert [track.birth.before for track in tracks] == [(3, 4, 1), (5, 1, 1), (7, 1, 1)]
    assert all(track.birth.boundary == 2 and track.birth.skips == "block" for track in tracks)
    assert sorted((r for track in tracks for r in track.requests), key=str) == sorted(befores, key=str)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 9)), unique=True, max_size=30))
def test_packing_serves_every_start_once(wanted: list[tuple[int, int, int]]) -> None:
    befores = [SkipBefore(block, prompt, start) for block, prompt, start in wanted]
    tracks = compile_tracks(befores, 5, batch=4)
    served = [request for track in tracks for request in track.requests]
    assert sorted(served, key=str) == sorted(befores, key=str)
    for track in tracks:
        assert track.birth.before is not None
        starts = {request.prompt: request.start for request in track.requests}
        assert len(starts) == len(track.requests)
        assert track.birth.before == tuple(starts.get(prompt, 1) for prompt in range(4))
    for block in {block for block, _, _ in wanted}:
        most = max(sum((b, p) == (block, prompt) for b, p, _ in wanted) for prompt in range(4))
        assert sum(track.birth.boundary == block + 1 for track in tracks) == most


@pytest.mark.parametrize(("order", "given"), [((1, 2, 3), "drop:0"), ((0, 0, 1, 2), "order:0-0-1-2")])
def test_protection_needs_a_slot_for_every_boundary(order: tuple[int, ...], given: str) -> None:
    """A block that runs twice would put a row's slot ahead of the boundary that the control has reached."""
    with pytest.raises(OptionError) as caught:
        ScheduleRow(Schedule(order, 4), protect=1)
    assert str(caught.value) == (f"protect=1 needs a schedule that runs every block once; given: {given}.")


def test_rows_that_differ_in_more_than_the_start_are_not_packed() -> None:
    late: list[Request] = [
        *(SkipBefore(1, 0, 3), SkipBefore(1, 1, 4, protect=0), SkipBefore(1, 1, 4, part="mlp")),
        *(SkipBefore(2, 1, 4), SkipBefore(1, 1, 4, part="channels")),
    ]
    tracks = compile_tracks(late, 4, batch=2)
    assert [track.requests for track in tracks] == [[request] for request in late]
    assert [(track.birth.skips, track.birth.protect, track.birth.before) for track in tracks] == [
        *(("block", 1, (3, 1)), ("block", 0, (0, 4)), ("mlp", 1, (1, 4))),
        *(("block", 1, (1, 4)), ("channels", 1, (1, 4))),
    ]

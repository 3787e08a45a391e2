"""Schedules against orders written out by hand or by plain list editing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.errors import OptionError
from bathyscope.schedule import Schedule, require_form

SIX = Schedule.standard(6)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any order at all, with blocks left out and repeated."""
    n_blocks = draw(st.integers(1, 9))
    order = draw(st.lists(st.integers(0, n_blocks - 1), max_size=12))
    schedule = Schedule(tuple(order), n_blocks)
    first = draw(st.integers(0, 12))
    group = order[first : first + draw(st.integers(0, 4))]
    if not group or any(order.count(block) > 1 for block in group):
        return schedule
    return schedule.parallel(*draw(st.permutations(group)))


@pytest.mark.parametrize(
    ("schedule", "order"),
    [
        (SIX, [0, 1, 2, 3, 4, 5]),
        (SIX.drop(0), [1, 2, 3, 4, 5]),
        (SIX.drop(5), [0, 1, 2, 3, 4]),
        (SIX.drop(2).drop(3), [0, 1, 4, 5]),
        (SIX.swap(0), [1, 0, 2, 3, 4, 5]),
        (SIX.swap(4), [0, 1, 2, 3, 5, 4]),
        (SIX.repeat(1), [0, 1, 1, 2, 3, 4, 5]),
        (SIX.repeat(2, length=3), [0, 1, 2, 2, 3, 3, 4, 4, 5]),
        (SIX.repeat(4, length=2, times=2), [0, 1, 2, 3, 4, 4, 4, 5, 5, 5]),
        (SIX.repeat(1, length=2).drop(1), [0, 2, 2, 3, 4, 5]),
        (SIX.swap(1).swap(2), [0, 3, 1, 2, 4, 5]),
        (SIX.parallel(3, 2), [0, 1, 2, 3, 4, 5]),
        (SIX.drop(3).parallel(2, 4), [0, 1, 2, 4, 5]),
        (Schedule.standard(1).drop(0), []),
    ],
)
def test_orders(schedule: Schedule, order: list[int]) -> None:
    assert list(schedule) == order
    assert schedule.order == tuple(order)
    assert len(schedule) == len(order)
    assert schedule.n_blocks == (1 if order == [] else 6)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("standard", SIX),
        ("drop:5", SIX.drop(5)),
        ("swap:3", SIX.swap(3)),
        ("repeat:1", SIX.repeat(1)),
        ("repeat:1+4", SIX.repeat(1, length=4)),
        ("repeat:1+4x2", SIX.repeat(1, length=4, times=2)),
        ("repeat:1x3", SIX.repeat(1, times=3)),
        ("order:0-2-1", Schedule((0, 2, 1), 6)),
        ("order:3", Schedule((3,), 6)),
        ("drop:5,swap:0", SIX.drop(5).swap(0)),
        ("parallel:2+3", SIX.parallel(2, 3)),
        ("parallel:3+2", SIX.parallel(2, 3)),
        ("parallel:1-3", SIX.parallel(1, 2, 3)),
        ("parallel:1-2+3", SIX.parallel(1, 2, 3)),
        ("parallel:4", SIX),
        ("drop:2,parallel:1+3", SIX.drop(2).parallel(1, 3)),
        ("parallel:3+4,drop:0,swap:1", SIX.drop(0).swap(1).parallel(3, 4)),
        ("parallel:4+5,parallel:0-2", SIX.parallel(0, 1, 2).parallel(4, 5)),
        ("repeat:5,parallel:1+2", SIX.parallel(1, 2).repeat(5)),
        (" drop:5 , repeat:0+2 ", SIX.drop(5).repeat(0, length=2)),
    ],
)
def test_parsing(text: str, schedule: Schedule) -> None:
    assert Schedule.parse(text, 6) == schedule


@given(schedules())
def test_every_order_can_be_written_down(schedule: Schedule) -> None:
    if not schedule.order:
        return
    text = "order:" + "-".join(map(str, schedule.order))
    text += "".join(",parallel:" + "+".join(map(str, group)) for group in schedule.groups)
    assert Schedule.parse(text, schedule.n_blocks) == schedule


@given(st.integers(2, 12), st.data())
def test_swapping_twice_is_standard(n_blocks: int, data: st.DataObject) -> None:
    block = data.draw(st.integers(0, n_blocks - 2))
    standard = Schedule.standard(n_blocks)
    once = standard.swap(block)
    assert once != standard
    assert not once.is_standard
    assert once.swap(block) == standard
    assert hash(once.swap(block)) == hash(standard)
    assert once.swap(block).is_standard


@given(st.integers(2, 12), st.data())
def test_drops_commute_and_leave_the_rest_in_order(n_blocks: int, data: st.DataObject) -> None:
    first, second = data.draw(st.permutations(range(n_blocks)))[:2]
    standard = Schedule.standard(n_blocks)
    both = standard.drop(first).drop(second)
    assert both == standard.drop(second).drop(first)
    assert list(both) == [b for b in range(n_blocks) if b not in (first, second)]


@given(st.integers(1, 12), st.integers(1, 4), st.data())
def test_a_repeat_is_every_block_of_the_window_in_a_row(n_blocks: int, times: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, n_blocks - 1))
    length = data.draw(st.integers(1, n_blocks - start))
    order = list(Schedule.standard(n_blocks).repeat(start, length, times))
    assert order == sorted(order)
    counts = [order.count(block) for block in range(n_blocks)]
    assert counts == [1 + times if start <= block < start + length else 1 for block in range(n_blocks)]


@given(data=st.data())
def test_what_names_a_block_that_does_not_run_is_refused_by_all_alike(data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, 5), unique=True, min_size=1, max_size=6))
    schedule, start = Schedule(tuple(order), 6), data.draw(st.integers(0, 4))
    length = data.draw(st.integers(1, 6 - start))
    calls: list[tuple[range, Callable[[], Schedule]]] = [
        (range(start, start + 1), lambda: schedule.drop(start)),
        (range(start, start + 2), lambda: schedule.swap(start)),
        (range(start, start + length), lambda: schedule.repeat(start, length)),
    ]
    for named, call in calls:
        if set(named) <= set(order):
            call()
        else:
            with pytest.raises(OptionError):
                call()


@given(schedules())
def test_clean_prefix_is_where_the_standard_order_ends(schedule: Schedule) -> None:
    prefix = schedule.clean_prefix
    assert list(schedule.order[:prefix]) == list(range(prefix))
    first = [group[0] for group in schedule.groups]
    assert prefix == len(schedule) or schedule.order[prefix] != prefix or schedule.order[prefix] in first
    assert not set(schedule.order[:prefix]) & {block for group in schedule.groups for block in group}
    assert schedule.is_standard == (prefix == len(schedule) == schedule.n_blocks)


def test_a_group_ends_the_clean_prefix() -> None:
    """Its first block runs as in the standard schedule, and what it gives is not what the next one reads."""
    assert [SIX.parallel(block, block + 1).clean_prefix for block in range(5)] == [0, 1, 2, 3, 4]
    assert SIX.swap(1).parallel(3, 4).clean_prefix == 1


def test_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        SIX.order = (0,)  # type: ignore[misc]
    assert len({SIX, Schedule.standard(6), SIX.drop(1), Schedule((0, 2, 3, 4, 5), 6)}) == 2
    assert Schedule.standard(5) != Schedule((0, 1, 2, 3, 4), 6)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (SIX, "0…5 of 6 blocks"),
        (SIX.drop(2), "0…1 3…5 of 6 blocks"),
        (SIX.swap(2), "0…1 3 2 4…5 of 6 blocks"),
        (SIX.repeat(2), "0…2 2…5 of 6 blocks"),
        (Schedule.standard(1).drop(0), "no block of 1 blocks"),
        (SIX.parallel(1, 2), "0 1+2 3…5 of 6 blocks"),
        (SIX.parallel(3, 4).parallel(0, 1, 2), "0+1+2 3+4 5 of 6 blocks"),
    ],
)
def test_orders_in_words(schedule: Schedule, text: str) -> None:
    assert schedule.in_words == text


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (SIX, "standard"),
        (SIX.drop(3).drop(1), "drop:1,drop:3"),
        (SIX.swap(2), "swap:2"),
        (SIX.repeat(2), "repeat:2+1"),
        (SIX.repeat(1, length=3, times=2), "repeat:1+3x2"),
        (SIX.drop(1).swap(3), "order:0-2-4-3-5"),
        (SIX.repeat(1).repeat(3), "order:0-1-1-2-3-3-4-5"),
        (Schedule.standard(1).drop(0), "drop:0"),
        (SIX.parallel(1, 2), "parallel:1+2"),
        (SIX.parallel(4, 5).parallel(1, 2, 3), "parallel:1-3,parallel:4+5"),
        (SIX.drop(2).parallel(1, 3), "drop:2,parallel:1+3"),
        (SIX.swap(1).parallel(1, 2), "swap:1,parallel:2+1"),
    ],
)
def test_the_text_is_what_commands_take(schedule: Schedule, text: str) -> None:
    assert str(schedule) == text


@given(schedules())
def test_the_text_gives_the_schedule_back(schedule: Schedule) -> None:
    assert Schedule.parse(str(schedule), schedule.n_blocks) == schedule


OUT_OF_RANGE = "is out of range; this model has 6 blocks, 0 to 5."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drop:6", f"drop: block 6 {OUT_OF_RANGE}"),
        ("swap:6", f"swap: block 6 {OUT_OF_RANGE}"),
        ("repeat:6", f"repeat: block 6 {OUT_OF_RANGE}"),
        ("order:0-7", f"a schedule: block 7 {OUT_OF_RANGE}"),
        ("swap:5", "swap:5: block 5 is the last of 6, it has no next block; allowed: 0 to 4."),
        ("drop:1,drop:1", "drop:1: block 1 does not run in this schedule (drop:1)."),
        ("drop:1,swap:0", "swap:0: blocks 0 and 1 must each run once (drop:1)."),
        ("repeat:1,swap:0", "swap:0: blocks 0 and 1 must each run once (repeat:1+1)."),
        (
            "repeat:4+3",
            "repeat:4+3x1: a window needs an end within 6 blocks; at length 3 the last start is 3.",
        ),
        ("drop:1,repeat:1+2", "repeat:1+2x1: block 1 does not run in this schedule (drop:1); name blocks that do."),
        ("repeat:4+0", "repeat:4+0x1: a window needs length ≥ 1"),
        ("repeat:4x0", "repeat:4+1x0: a window needs length ≥ 1 and times ≥ 1"),
        ("drop", "'drop': write drop: and one block index, for example drop:5."),
        ("drop:-1", "'drop:-1': write drop: and one block index"),
        ("drop:²", "'drop:²': write drop: and one block index"),
        ("swap:1-2", "'swap:1-2': write swap: and one block index, for example swap:5."),
        ("parallel:6", f"parallel: block 6 {OUT_OF_RANGE}"),
        ("parallel:2-999999999", f"parallel: block 999999999 {OUT_OF_RANGE}"),
        ("parallel:1+1", "parallel:1+1: block 1 is named twice; name each once."),
        ("parallel:1-3+2", "parallel:1+2+3+2: block 2 is named twice; name each once."),
        ("parallel:1+3", "parallel:1+3: these blocks are no neighbours in this schedule, so they have no common place"),
        ("drop:1,parallel:1+2", "parallel:1+2: block 1 does not run in this schedule; name blocks that run once."),
        ("repeat:1,parallel:1+2", "parallel:1+2: block 1 runs 2 times in this schedule; name blocks that run once."),
        ("parallel:1+2,drop:2", "drop:2: block 2 runs in parallel with others (parallel:1+2); change the order first"),
        ("parallel:1-3,swap:3", "swap:3: block 3 runs in parallel with others (parallel:1-3); change the order first"),
        ("parallel:1+2,repeat:2+2", "repeat:2+2x1: block 2 runs in parallel with others (parallel:1+2)"),
        ("parallel:1+2,order:0-1", "order:0-1: block 1 runs in parallel with others (parallel:1+2)"),
        ("parallel:1+2,parallel:2+3", "parallel:2+3: block 2 runs in parallel already (parallel:1+2); name all blocks"),
        ("parallel:3-1", "'parallel:3-1': a range goes from its first to its last block; write 1-3."),
        ("parallel:", "'parallel:': write parallel: and neighbouring blocks, such as parallel:3+4 or parallel:3-5."),
        ("parallel:1,2", "Unknown schedule '2'."),
        ("standard:3", "'standard:3': standard takes nothing after it."),
        ("repeat:x", "'repeat:x': write repeat:START+LENGTH or repeat:START+LENGTHxTIMES."),
        ("order:", "'order:': write the blocks joined by dashes, for example order:0-2-1-3."),
        ("order:0,2", "Unknown schedule '2'."),
        ("dorp:3", "Unknown schedule 'dorp:3'. Did you mean 'drop'? Allowed: standard, drop:5, swap:3,"),
        ("", "Unknown schedule ''. Allowed: standard,"),
        ("drop:1,", "Unknown schedule ''."),
    ],
)
def test_errors_say_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Schedule.parse(text, 6)
    assert message in str(caught.value)


def test_a_model_has_blocks() -> None:
    with pytest.raises(OptionError, match="A model has at least one block; 0 given"):
        Schedule.standard(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schedule((0, 1.5), 3), "a schedule: a block is a whole number; 1.5 given."),
        (lambda: Schedule((0, True), 3), "a schedule: a block is a whole number; True given."),
        (lambda: Schedule((0, "1"), 3), "a schedule: a block is a whole number; '1' given."),
        (lambda: Schedule("012", 3), "A schedule's order is a list of blocks such as [0, 2, 1]; '012' given."),
        (lambda: Schedule(3, 3), "A schedule's order is a list of blocks such as [0, 2, 1]; 3 given."),
        (lambda: Schedule((0,), "3"), "The number of blocks is a whole number; '3' given."),
        (lambda: Schedule.standard(2.0), "The number of blocks is a whole number; 2.0 given."),
        (lambda: Schedule(range(6), 6, ["12"]), "A group of parallel blocks is a list such as [3, 4]; '12' given."),
        (lambda: SIX.parallel(1, 2.5), "parallel: a block is a whole number; 2.5 given."),
        (lambda: SIX.parallel(), "parallel: name at least one block, for example parallel:3+4."),
        (lambda: SIX.drop("1"), "drop: a block is a whole number; '1' given."),
        (lambda: SIX.swap(None), "swap: a block is a whole number; None given."),
        (lambda: SIX.repeat(0.0), "repeat: a block is a whole number; 0.0 given."),
        (lambda: SIX.repeat(0, "2"), "repeat: length is a whole number; '2' given."),
        (lambda: SIX.repeat(0, times=1.0), "repeat: times is a whole number; 1.0 given."),
        (lambda: Schedule.parse(5, 6), "A schedule is written as a text such as 'drop:5'; 5 given."),
    ],
)
def test_arguments_of_another_kind_are_refused(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        make()
    assert str(caught.value) == message


def test_whole_numbers_of_other_libraries_are_taken() -> None:
    assert Schedule(np.array([0, 2, 1]), np.int64(3)) == Schedule((0, 2, 1), 3)  # type: ignore[arg-type]
    assert SIX.drop(np.int64(1)) == SIX.drop(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SIX.repeat(1, 2, 10**15), "repeat:1+2x1000000000000000: a schedule has at most 10000 steps; 2000"),
        (lambda: SIX.repeat(0, 6, 1666), "repeat:0+6x1666: a schedule has at most 10000 steps; 10002 asked for."),
        (lambda: Schedule.parse("repeat:1x99999,drop:1", 6), "repeat:1+1x99999: a schedule has at most 10000 steps"),
        (lambda: Schedule(range(10**12), 10), "a schedule has at most 10000 steps; 1000000000000 asked for."),
        (lambda: Schedule.standard(10**15), "A schedule is for a model of at most 10000 blocks; 1000000000000000 g"),
        (lambda: Schedule((), 10**15), "A schedule is for a model of at most 10000 blocks"),
        (lambda: Schedule.parse("drop:" + "9" * 5000, 6), "numbers of a few digits; one of 5000 digits given."),
    ],
)
def test_what_would_never_end_is_refused_before_it_takes_memory(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        make()
    assert message in str(caught.value)


def test_the_longest_schedule() -> None:
    assert len(SIX.repeat(0, 6, 1665)) == 9996


@given(st.data())
def test_a_text_is_refused_without_a_model_only_where_every_model_refuses_it(data: st.DataObject) -> None:
    block = st.integers(0, 6)
    steps = st.one_of(
        st.builds("drop:{}".format, block),
        st.builds("swap:{}".format, block),
        st.builds("parallel:{}+{}".format, block, block),
        st.builds("parallel:{}-{}".format, block, block),
        st.builds("repeat:{}+{}x{}".format, block, st.integers(0, 4), st.integers(0, 2000)),
        st.lists(block, min_size=1, max_size=4).map(lambda blocks: f"order:{'-'.join(map(str, blocks))}"),
        st.sampled_from(["standard", "drop:", "order:", "dorp:1", "repeat:a", ""]),
    )
    text = ",".join(data.draw(st.lists(steps, min_size=1, max_size=3)))
    runs_in_a_model = any(_is_read(text, n_blocks) for n_blocks in range(1, 14))
    try:
        require_form(text)
    except OptionError:
        assert not runs_in_a_model
    else:
        assert runs_in_a_model


def _is_read(text: str, n_blocks: int) -> bool:
    try:
        Schedule.parse(text, n_blocks)
    except OptionError:
        return False
    return True


@given(schedules())
def test_stages_are_the_order_cut_at_groups(schedule: Schedule) -> None:
    assert [block for stage in schedule.stages for block in stage] == list(schedule.order)
    assert [stage for stage in schedule.stages if len(stage) > 1] == list(schedule.groups)


def test_a_block_in_parallel_with_none_is_the_standard_schedule() -> None:
    assert SIX.parallel(3) == SIX
    assert SIX.parallel(3).is_standard
    assert Schedule(range(6), 6, [[2], [4, 3]]) == SIX.parallel(3, 4)  # type: ignore[arg-type]
    assert SIX.parallel(3, 4) != SIX
    assert not SIX.parallel(3, 4).is_standard
    assert eval(repr(SIX.parallel(3, 4))) == SIX.parallel(3, 4)

"""Addresses of steps in loops."""

from __future__ import annotations

import math

import pytest

from bathyscope.core.cycles import Cycle, cycle_in, cycle_of, joined_blocks


def test_a_tied_stack_has_loops_of_all_its_blocks() -> None:
    cycle = Cycle((0, 1, 0, 1, 0, 1))
    assert (cycle.period, cycle.loops) == (2, 3)
    assert cycle.loop == (0, 0, 1, 1, 2, 2)
    assert cycle.block_in_loop == (0, 1, 0, 1, 0, 1)
    assert cycle.name(3) == "loop 1, block 1"
    assert cycle.runs_of(1) == (1, 3, 5)
    assert cycle.in_loops(5.0) == "2.5 of 3 loops"


def test_blocks_around_the_loops_count_apart() -> None:
    cycle = Cycle((0, 1, 2, 1, 2, 3))
    assert (cycle.period, cycle.loops) == (2, 2)
    assert cycle.loop == (-1, 0, 0, 1, 1, -1)
    assert cycle.block_in_loop == (0, 0, 1, 0, 1, 3)
    assert cycle.name(0) == "block 0"
    assert cycle.name(5) == "block 3"
    assert cycle.runs_of(0) == (1, 3)
    assert [cycle.loops_done(x) for x in (0, 1, 2, 5, 6)] == [0, 0, 0.5, 2, 2]


def test_nested_loops_are_counted_by_the_outer_one() -> None:
    cycle = Cycle((0, 1, 0, 1, 2, 3) * 2)
    assert (cycle.period, cycle.loops) == (6, 2)
    assert cycle.loop == (0,) * 6 + (1,) * 6
    assert cycle.block_in_loop == tuple(range(6)) * 2


def test_an_order_without_a_period_has_runs_alone() -> None:
    cycle = Cycle((0, 1, 0))
    assert cycle.period is None
    assert cycle.loop == (0, -1, 1)
    assert cycle.block_in_loop == (0, 1, 0)
    assert cycle.in_loops(2.0) == ""
    with pytest.raises(ValueError, match="does not repeat"):
        cycle.loops_done(1.0)


def test_blocks_that_run_once_have_no_cycle() -> None:
    assert cycle_of((0, 1, 2)) is None
    assert cycle_of(None) is None
    assert cycle_of((0, 0)) == Cycle((0, 0))
    assert Cycle((0, 0)).in_loops(math.nan) == ""


def test_the_attribute_of_a_result_gives_the_cycle_back() -> None:
    cycle = Cycle((2, 0, 1, 0, 1, 3))
    assert joined_blocks(cycle) == "2,0,1,0,1,3"
    assert cycle_in({"loops": joined_blocks(cycle)}) == cycle
    assert cycle_in({}) is None, "a result that names no cycle"
    assert cycle_in({"loops": "0,1,2"}) is None, "every block runs once"

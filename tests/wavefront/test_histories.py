"""Trees of histories: what they hold, and the exact number of calls that they take."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest

from bathyscope.schedule import Schedule
from bathyscope.wavefront.histories import Step, Tree, Unit, following, twice, without


def test_without_leaves_out_blocks_and_parts() -> None:
    units = [Unit(0), Unit(2, "mlp"), Unit(2, "attention"), Unit(3, "attention")]
    assert without(5, units) == (Step(1), Step(2, ("attention", "mlp")), Step(3, ("attention",)), Step(4))
    assert without(3, ()) == following(Schedule.standard(3))
    assert [str(unit) for unit in units] == ["drop:0", "mlp:2", "attention:2", "attention:3"]


def test_a_window_runs_twice_in_a_row() -> None:
    assert twice(6, 2, 4).order == (0, 1, 2, 3, 4, 2, 3, 4, 5)
    assert twice(3, 1, 1) == Schedule.standard(3).repeat(1)


def test_blocks_in_parallel_are_one_step_of_several_calls() -> None:
    standard = Schedule.standard(5)
    parallel = following(standard.parallel(1, 2))
    assert parallel == (Step(0), Step(1, parallel=(2,)), Step(3), Step(4))
    assert Tree([following(standard), parallel]).calls == 5 + 4
    assert Tree([following(standard.parallel(0, 1, 2)), following(standard.parallel(0, 1, 2).drop(4))]).calls == 5


@pytest.mark.parametrize("n", [1, 2, 5, 8, 32, 80])
def test_pairs_take_as_many_calls_as_their_formula(n: int) -> None:
    subsets = [[Unit(b) for b in own] for size in (1, 2) for own in combinations(range(n), size)]
    assert Tree.leaving_out(n, subsets).calls == comb(n, 3) + n * (n - 1) // 2 + n
    assert Tree.leaving_out(n, subsets[:n]).calls == n * (n - 1) // 2 + n


def test_the_numbers_of_calls_that_are_published() -> None:
    assert comb(32, 3) + 32 * 31 // 2 + 32 == 5488
    assert comb(80, 3) + 80 * 79 // 2 + 80 == 85400
    assert sum(n * n for n in range(1, 81)) + 80 == 173960


@pytest.mark.parametrize("n", [1, 4, 7, 80])
def test_windows_take_as_many_calls_as_their_formula(n: int) -> None:
    windows = [following(twice(n, i, j)) for i in range(n) for j in range(i, n)]
    assert Tree([following(Schedule.standard(n)), *windows]).calls == sum(k * k for k in range(1, n + 1)) + n


def test_any_subsets_take_a_call_for_each_distinct_beginning() -> None:
    subsets = [{Unit(1), Unit(2, "mlp")}, {Unit(2, "mlp")}, {Unit(1)}, {Unit(4), Unit(0)}, {Unit(1)}]
    tree = Tree.leaving_out(5, subsets)
    beginnings = {own[: i + 1] for own in tree.histories for i in range(len(own))}
    assert tree.calls == len(beginnings)
    assert tree.histories[3] == tree.histories[5]

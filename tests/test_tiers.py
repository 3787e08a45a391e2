"""Which tests are slow follows from a recorded table, which is well formed and names tests that are there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from support import tiers
from support.tiers import BOUND, BOUND_OF_GUARDS, LISTED, SWEEP, TABLE, Cost, Tiers, read, spread, tabled, write

REPOSITORY = Path(__file__).resolve().parents[1]
COSTS = read()
THERE = [name for name in COSTS if (REPOSITORY / name.partition("/")[0]).is_dir()]
"""Rows of the folders that are there: the instrument and its tests need no studies."""
sys.path.insert(0, str(REPOSITORY / "tests" / "mutations"))
from bugs import BUGS  # noqa: E402 - a folder that is no package


@cache
def functions_in(file: str) -> set[str]:
    """The test functions of a file, those of classes behind the name of their class."""
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))

    def named(body: list[ast.stmt], before: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield before + node.name
            elif isinstance(node, ast.ClassDef):
                yield from named(node.body, f"{before}{node.name}::")

    return {f"{file}::{name}" for name in named(tree.body, "")}


@cache
def contracts_in(file: str) -> set[str]:
    """The test functions of a file that stay in ``make test`` whatever they cost."""
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    marks = {node.name: {ast.unparse(decorator) for decorator in node.decorator_list} for node in functions}
    return {f"{file}::{name}" for name, decorators in marks.items() if "pytest.mark.contract" in decorators}


def test_the_table_is_as_it_is_written(tmp_path: Path) -> None:
    """In the order of its names, each once, with costs that are numbers."""
    write(COSTS, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text(encoding="utf-8") == TABLE.read_text(encoding="utf-8")
    assert len(COSTS) > 100
    assert all(cost.cases > 0 and cost.seconds >= 0 for cost in COSTS.values())
    assert not any("[" in name for name in COSTS)


def test_the_table_names_tests_that_are_there() -> None:
    """Whoever renames or deletes one of them runs ``make times ONLY=`` with its file, or changes its row."""
    gone = [name for name in THERE if not (REPOSITORY / name.partition("::")[0]).is_file()]
    gone += [
        name
        for name in THERE
        if name not in gone and "::" in name and name not in functions_in(name.partition("::")[0])
    ]
    assert not gone, f"rows of tests/times.csv whose tests are not there: {gone}"


def test_marks_of_the_tier_are_set_by_the_table_alone() -> None:
    by_hand = re.compile(r"mark\.slow\b")
    files = [path for folder in ("tests", "packages", "studies") for path in (REPOSITORY / folder).rglob("test_*.py")]
    assert [str(path) for path in files if by_hand.search(path.read_text(encoding="utf-8"))] == []


def test_most_planted_bugs_are_named_with_quick_tests() -> None:
    """All cases of the named test, or of every test of the named file, run in ``make test``."""
    costs = {name: COSTS[name] for name in THERE if name not in contracts_in(name.partition("::")[0])}
    # what is left out of the table is no smaller a part of the whole for it
    costs["contracts"] = Cost(1, sum(COSTS[name].seconds for name in THERE if name not in costs))
    slow = tiers.slow_names({bug.named for bug in BUGS}, costs)
    missed = [bug.name for bug in BUGS if bug.named in slow]
    assert len(missed) <= 0.15 * len(BUGS), missed


@given(st.integers(0, 50), st.integers(0, 50))
def test_what_stays_of_many_cases_is_spread_over_all_of_them(most: int, cases: int) -> None:
    kept = sorted(spread(most, cases))
    assert len(kept) == min(most, cases)
    assert all(0 <= position < cases for position in kept)
    gaps = [right - left for left, right in pairwise(kept)]
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(st.integers(1, 40), st.floats(0, 100), st.floats(0.1, 1000))
def test_no_function_has_more_than_its_share(cases: int, seconds: float, others: float) -> None:
    judged = Tiers({"tests/a.py::test_a": Cost(cases, seconds), "tests/b.py": Cost(9, others)})
    kept = judged.quick("tests/a.py::test_a", cases)
    whole = seconds + others
    assert len(kept) * seconds / cases <= BOUND * whole + 1e-9
    # and no case is left out that fits
    assert len(kept) == cases or (len(kept) + 1) * seconds / cases > BOUND * whole - 1e-9
    assert judged.quick("tests/a.py::test_new", cases) == set(range(cases))
    # that of a function which a planted bug names is larger
    guard = Tiers(judged.costs, {"tests/a.py"}).quick("tests/a.py::test_a", cases)
    assert len(guard) >= len(kept)
    assert (len(guard) == cases) == (seconds <= BOUND_OF_GUARDS * whole)


@given(st.integers(1, 40), st.floats(0, 100), st.floats(0.1, 1000))
def test_a_sweep_keeps_a_case_and_its_share(cases: int, seconds: float, others: float) -> None:
    costs = {"tests/a.py::test_a": Cost(cases, seconds), "tests/b.py": Cost(9, others)}
    judged = Tiers(costs)
    kept = judged.usual("tests/a.py::test_a", cases)
    assert kept >= judged.quick("tests/a.py::test_a", cases)
    assert kept
    # the quick ones, spread otherwise, come on top
    assert (len(kept) - 1) * seconds / cases <= (SWEEP + BOUND) * (seconds + others) + 1e-9
    for guard in ("tests/a.py", "tests/a.py::test_a"):
        assert Tiers(costs, {guard}).usual("tests/a.py::test_a", cases) == set(range(cases))
    judged.leaves_sweeps = False
    assert judged.usual("tests/a.py::test_a", cases) == set(range(cases))


def test_a_run_of_some_files_leaves_the_rows_of_others() -> None:
    before = {
        "tests/a.py": Cost(2, 0.1),
        "tests/a.py::test_gone": Cost(1, 9.0),
        "tests/b.py::test_b": Cost(3, 4.0),
    }
    seconds = {"tests/a.py::test_a[1]": LISTED, "tests/a.py::test_a[2]": 1.0, "tests/a.py::T::test_c": LISTED / 2}
    assert tabled(seconds, before) == {
        "tests/a.py": Cost(1, LISTED / 2),
        "tests/a.py::test_a": Cost(2, 1.0 + LISTED),
        "tests/b.py::test_b": Cost(3, 4.0),
    }


def test_without_a_table_every_test_is_quick(tmp_path: Path) -> None:
    nothing = Tiers(read(tmp_path / "none.csv"))
    assert nothing.quick("tests/a.py::test_a", 7) == set(range(7))


@pytest.mark.parametrize(
    ("marked", "seconds", "slow", "thorough"),
    [
        ([], 0.03, [], []),  # three of a hundred thousand parts of the whole
        ([], 0.06, [1, 3, 5, 7, 9], []),
        ([], 0.15, [1, 2, 3, 4, 6, 7, 8, 9], []),
        ([], 2.0, range(10), []),  # what a sweep may have
        ([], 5.0, [0, 2, 5, 7], [1, 3, 4, 6, 8, 9]),
        ([], 900.0, [0], range(1, 10)),  # one stays
        ([pytest.mark.each], 5.0, range(10), []),
        ([pytest.mark.each], 900.0, range(10), []),
        ([pytest.mark.contract], 900.0, [], []),
        ([pytest.mark.thorough], 900.0, [], []),
    ],
)
def test_marks_follow_the_table(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    marked: list[Any],
    seconds: float,
    slow: list[int],
    thorough: list[int],
) -> None:
    """Those that this project's own hook gives the cases of a function as they are collected."""
    hooks = request.config.pluginmanager
    (conftest,) = (plugin for plugin in hooks.get_plugins() if hasattr(plugin, "TIERS"))
    collector = request.node.getparent(pytest.Module)

    @pytest.mark.parametrize("case", range(10))
    def test_many(case: int) -> None: ...

    for mark in marked:
        mark(test_many)
    marks_by_hand = {mark.name for mark in marked}
    costs = {f"{collector.nodeid}::test_many": Cost(10, seconds), "tests/other.py": Cost(1, 1000 - seconds)}
    monkeypatch.setattr(conftest, "TIERS", Tiers(costs))
    monkeypatch.setattr(request.module, "test_many", test_many, raising=False)
    items = hooks.hook.pytest_pycollect_makeitem(collector=collector, name="test_many", obj=test_many)
    found = [position for position, item in enumerate(items) if item.get_closest_marker("slow")]
    left = [position for position, item in enumerate(items) if item.get_closest_marker("thorough")]
    assert len(items) == 10
    if "thorough" in marks_by_hand:
        assert (found, left) == ([], list(range(10)))
    else:
        assert (found, left) == (list(slow), list(thorough))


@pytest.mark.parametrize("plugin", ["timed", "any_machine"])
def test_what_a_command_line_loads_comes_before_the_path_to_support(plugin: str) -> None:
    """``-p`` imports a plugin before this project's own hooks have put ``support`` on the path."""
    program = [sys.executable, "-c", f"import sys; import tests.support.{plugin}; assert 'support' not in sys.modules"]
    done = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

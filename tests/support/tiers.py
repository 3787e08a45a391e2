"""The two tiers of the tests: those of ``make test``, and those that ``make test-all`` runs besides.

A test is slow by what it cost when ``make times`` was last run, and by nothing else. ``tests/times.csv`` keeps the CPU
seconds of each test function that cost something, the programs that it starts included, over all its cases; what the
functions of a file cost that are not listed stands under the name of the file. A function is slow where its share of
the whole is above ``BOUND``, or above ``BOUND_OF_GUARDS`` where a planted bug names it. Of one with many cases as many
stay in ``make test`` as fit, spread evenly over the list. What costs little, and a new test, is quick.

One whose share is above ``BOUND_OF_ALL`` leaves to ``make test-thorough`` the cases that do not fit into that; not
where a planted bug names the test, which may need any of its cases to be noticed, and not where ``@pytest.mark.each``
says that every case is a test of its own, for which no other stands.

``@pytest.mark.contract`` keeps a test in ``make test`` whatever it costs: what nothing else there would notice.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

TABLE: Final = Path(__file__).resolve().parents[1] / "times.csv"
COLUMNS: Final = ("test", "cases", "seconds")
BOUND: Final = 0.00003
"""Share of the CPU seconds of all tests that one test function of ``make test`` may have."""
BOUND_OF_GUARDS: Final = 0.0007
"""The same of a function that a planted bug names."""
BOUND_OF_ALL: Final = 0.0002
"""Share of the whole that the cases of one test function may have in ``make test-all``."""
LISTED: Final = 0.3
"""CPU seconds from which a test function has a row of its own."""


@dataclass(frozen=True)
class Cost:
    """What a test function, or the rest of a file, cost.

    Args:
        cases: how many tests it was.
        seconds: CPU seconds of all of them.
    """

    cases: int
    seconds: float


def read(path: Path = TABLE) -> dict[str, Cost]:
    """The recorded table: test function, or file for its others → cost; empty where there is none."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        return {row["test"]: Cost(int(row["cases"]), float(row["seconds"])) for row in csv.DictReader(lines)}


def write(costs: Mapping[str, Cost], path: Path = TABLE) -> None:
    """Writes a table in the order of its names."""
    with path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((name, cost.cases, f"{cost.seconds:.1f}") for name, cost in sorted(costs.items()))


def function_of(test: str) -> str:
    """The test function of a case: its id without parameters."""
    return test.partition("[")[0]


def tabled(seconds: Mapping[str, float], before: Mapping[str, Cost]) -> dict[str, Cost]:
    """The table after a run.

    Args:
        seconds: test → its CPU seconds.
        before: the table until now, whose rows of files that did not run stay.
    """
    functions: dict[str, list[float]] = {}
    for test, cost in seconds.items():
        functions.setdefault(function_of(test), []).append(cost)
    rows: dict[str, list[float]] = {}
    for function, costs in functions.items():
        name = function if sum(costs) >= LISTED else function.partition("::")[0]
        rows.setdefault(name, []).extend(costs)
    files = {function.partition("::")[0] for function in functions}
    stay = {name: cost for name, cost in before.items() if name.partition("::")[0] not in files}
    return stay | {name: Cost(len(costs), sum(costs)) for name, costs in rows.items()}


def spread(most: int, of: int) -> set[int]:
    """At most so many positions of a list of a length, spread evenly over it."""
    kept = min(most, of)
    return {position * of // kept for position in range(kept)}


class Tiers:
    """Says which cases of a test function are slow.

    Args:
        costs: the recorded table.
        guards: test functions, or files, that planted bugs name.
    """

    def __init__(self, costs: Mapping[str, Cost], guards: Collection[str] = ()) -> None:
        self.costs, self.guards = costs, guards
        self.seconds = sum(cost.seconds for cost in costs.values())
        self.leaves_costly = True

    def quick(self, function: str, cases: int) -> set[int]:
        """The positions of the cases that stay in ``make test``, of so many."""
        return self._fitting(function, cases, BOUND_OF_GUARDS if self._is_guard(function) else BOUND)

    def usual(self, function: str, cases: int) -> set[int]:
        """The positions of the cases that stay in ``make test-all``, those of ``make test`` among them."""
        if not self.leaves_costly or self._is_guard(function):
            return set(range(cases))
        return self._fitting(function, cases, BOUND_OF_ALL) | self.quick(function, cases)

    def _is_guard(self, function: str) -> bool:
        return function in self.guards or function.partition("::")[0] in self.guards

    def _fitting(self, function: str, cases: int, share: float) -> set[int]:
        cost, most = self.costs.get(function), share * self.seconds
        if cost is None or cost.seconds <= most:
            return set(range(cases))
        return spread(int(most * cost.cases / cost.seconds), cases)

    def mark(self, items: Sequence[pytest.Item]) -> None:
        """Marks the slow and thorough ones of a function's cases; those marked by hand are left alone."""
        cases = [
            item for item in items if not (item.get_closest_marker("thorough") or item.get_closest_marker("contract"))
        ]
        if cases:
            function = function_of(cases[0].nodeid)
            everything = set(range(len(cases)))
            quick = self.quick(function, len(cases))
            usual = everything if cases[0].get_closest_marker("each") else self.usual(function, len(cases))
            for position, item in enumerate(cases):
                if position not in quick:
                    item.add_marker("slow" if position in usual else "thorough")


def guards() -> set[str]:
    """The test functions and files that planted bugs name."""
    folder = str(TABLE.parent / "mutations")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from bugs import BUGS

    return {bug.named for bug in BUGS}


def slow_names(names: Iterable[str], costs: Mapping[str, Cost]) -> set[str]:
    """Those of these test functions of which a case is slow, or of whose file one is where a file is named."""
    tiers = Tiers(costs, guards())
    slow = {name for name, cost in costs.items() if "::" in name and len(tiers.quick(name, cost.cases)) < cost.cases}
    return {name for name in names if name in slow or any(other.startswith(f"{name}::") for other in slow)}

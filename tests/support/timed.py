"""Records what each test costs: ``make times``.

    python -m pytest -p tests.support.timed -m "not thorough" [tests/...]

Writes ``tests/times.csv`` with the CPU seconds of each test function (``support.tiers`` says how it is read). Rows of
files that did not run stay; those of other machines are no faster or slower for it, so run everything where you can.
CPU seconds are those of the process and of the programs that a test waits for; how busy the machine is hardly matters.
"""

from __future__ import annotations

import resource
from collections.abc import Generator

import pytest

COST = "cpu seconds"


def cpu_seconds() -> float:
    """CPU seconds of this process, of the programs that it has waited for, and of those that are copies of another."""
    # ``-p`` loads this before the path to ``support`` is made
    from support import warm

    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + warm.cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """What a test needs is counted with the first test that needs it."""
    return (yield from _timed(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """The test itself."""
    return (yield from _timed(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """And what it leaves to be done."""
    return (yield from _timed(item))


def _timed(item: pytest.Item) -> Generator[None, None, None]:
    before = cpu_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append((COST, cpu_seconds() - before))


class Recorder:
    """Collects what the tests cost, in the process that hears of all of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The last report of a test holds the costs of all its phases."""
        if report.when == "teardown":
            self.seconds[report.nodeid] = sum(float(cost) for name, cost in report.user_properties if name == COST)  # type: ignore[arg-type]

    def pytest_sessionfinish(self) -> None:
        """Writes the table."""
        from support import tiers

        if self.seconds:
            tiers.write(tiers.tabled(self.seconds, tiers.read()))


def pytest_configure(config: pytest.Config) -> None:
    """One process writes; those that run tests for it only report to it."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())

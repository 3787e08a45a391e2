from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from bathyscope.lab.planted import CONSTRUCTIONS, Cell, judge, surveyed
from bathyscope.store.run import Run


@pytest.fixture(scope="session")
def run_of() -> Callable[[str], Run]:
    """The survey of the planted model of that name, made once."""
    return lru_cache(maxsize=None)(lambda name: surveyed(CONSTRUCTIONS[name]))


@pytest.fixture(scope="session")
def cells_of(run_of: Callable[[str], Run]) -> Callable[[str], dict[str, Cell]]:
    """A column of the table."""
    return lru_cache(maxsize=None)(lambda name: judge(run_of(name), CONSTRUCTIONS[name].truth))

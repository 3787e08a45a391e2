from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import pytest
import torch

from bathyscope import Run
from studies.planted import CONSTRUCTIONS, Cell, judge, surveyed


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that share matrices this small mostly wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def run_of() -> Callable[[str], Run]:
    """The survey of the planted model of that name, made once."""
    return lru_cache(maxsize=None)(lambda name: surveyed(CONSTRUCTIONS[name]))


@pytest.fixture(scope="session")
def cells_of(run_of: Callable[[str], Run]) -> Callable[[str], dict[str, Cell]]:
    """A column of the table."""
    return lru_cache(maxsize=None)(lambda name: judge(run_of(name), CONSTRUCTIONS[name].truth))

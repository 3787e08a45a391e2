"""Makes ``support`` importable, keeps the hub out of the tests, and finds the shared reference material."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).resolve().parent
SHARED = TESTS.parents[1] / "shared"

if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
# no property may depend on how busy the machine is
settings.register_profile("bathyscope", deadline=None)
settings.load_profile("bathyscope")
# nothing in the tests may depend on the network; read when transformers is first imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Path of a file of the shared reference material; the test is skipped where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the shared reference material has no {name} beside this checkout")
        return path

    return find

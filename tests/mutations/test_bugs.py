"""The table of bugs follows the code: each can be put in, and the tests that it names are there."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from bug import Bug
from bugs import BUGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_can_be_put_in(bug: Bug) -> None:
    text = (ROOT / bug.path).read_text(encoding="utf-8")
    changed = bug.put_into(text)
    assert changed != text
    compile(changed, bug.path, "exec")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_tests_that_it_names_are_there(bug: Bug) -> None:
    path, _, name = bug.named.partition("::")
    assert f"def {name or 'test_'}" in (ROOT / path).read_text(encoding="utf-8")


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 40
    by_room = Counter(bug.room for bug in BUGS)
    assert min(by_room[room] for room in ("wavefront", "measures", "statistics", "runs", "model", "analysis")) >= 4

"""The table of bugs follows the code: each can be put in, and the tests that it names are there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from bug import Bug
from bugs import BUGS
from run import write_source

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


def test_bytecode_of_the_text_before_does_not_pass_for_the_next(tmp_path: Path) -> None:
    """Where both are of one size and are written within a second."""
    path = tmp_path / "module_with_a_bug.py"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def printed() -> str:
        command = [sys.executable, "-c", "import module_with_a_bug as found; print(found.VALUE)"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    path.write_text("VALUE = 0", encoding="utf-8")
    for value in (1, 0, 1):
        printed()
        write_source(path, f"VALUE = {value}")
        assert printed().strip() == str(value)
    assert any((tmp_path / "__pycache__").iterdir())

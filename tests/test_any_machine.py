"""The processor that rounds by the size of a call: what it moves, what it leaves, and whom it reaches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import any_machine

CHECKED = Path(__file__).parent / "support" / "any_machine_checked.py"
PARTS = ["sizes", "kernels", "units", "exact", "dtypes", "transforms", "threads", "forks"]


def environment(**changed: str) -> dict[str, str]:
    return {**os.environ, any_machine.VARIABLE: "1", "PYTHONPATH": str(any_machine.AT_START), **changed}


@pytest.fixture(scope="module")
def checked() -> str:
    """What a program says that was told by its environment alone, and checks itself part by part."""
    ran = subprocess.run([sys.executable, str(CHECKED)], env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert not ran.stderr
    return ran.stdout


@pytest.mark.parametrize("part", PARTS)
def test_a_program_is_reached_by_its_environment(part: str, checked: str) -> None:
    assert f"{part}: as it should be" in checked.splitlines(), checked


def test_a_program_without_torch_does_not_load_it() -> None:
    code = "import sys, json; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 0


def test_programs_of_programs_are_reached_and_those_told_nothing_are_not() -> None:
    asked = "import torch; print(torch.library.get_kernel('aten::mm', 'CPU'))"
    started = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asked!r}], check=True)"
    told, untold = (
        subprocess.run(
            [sys.executable, "-c", started], env=environment(**changed), capture_output=True, text=True, check=True
        ).stdout
        for changed in ({}, {any_machine.VARIABLE: ""})
    )
    assert "any_machine.py" in told
    assert "any_machine.py" not in untold


def test_a_program_that_looked_for_torch_first_is_reached() -> None:
    code = "import importlib.util as u; assert u.find_spec('torch'); import torch; "
    code += "print(torch.library.get_kernel('aten::mm', 'CPU'))"
    ran = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "any_machine.py" in ran.stdout

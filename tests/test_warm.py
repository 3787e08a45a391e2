"""Programs that are copies of a warm process behave as new interpreters do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import warm

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are copies of a process")

TELL = """
import json, os, sys
print(json.dumps([__name__, sys.argv[1:], os.getcwd(), os.environ.get("GIVEN"), "torch" in sys.modules]))
print("an error", file=sys.stderr)
"""


def test_a_copy_has_imported_what_costs_most() -> None:
    missing = run_code(f"import sys; print([name for name in {warm.IMPORTED} if name not in sys.modules])")
    assert missing.stdout == "[]\n", missing.stderr


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    return warm.run(["-c", code])


def test_a_script_has_its_own_arguments_folder_and_environment(tmp_path: Path) -> None:
    """As a new interpreter has them, word for word; nothing of the tests' environment reaches it."""
    script = tmp_path / "tell.py"
    script.write_text(TELL, encoding="utf-8")
    environment = {"GIVEN": "yes", "PATH": os.environ["PATH"]}
    copied = warm.run([str(script), "a", "b c"], environment, tmp_path)
    started = subprocess.run(
        [sys.executable, str(script), "a", "b c"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert copied.stderr == started.stderr == "an error\n"
    assert started.stdout.endswith(", false]\n")
    assert copied.stdout == started.stdout.replace("false", "true")


def test_a_module_runs_as_main(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(TELL, encoding="utf-8")
    assert warm.run(["-m", "told", "x"], folder=tmp_path).stdout.startswith('["__main__", ["x"], ')


@pytest.mark.parametrize(
    ("code", "status"),
    [
        pytest.param("import sys; sys.exit(3)", 3, id="exit"),
        pytest.param("raise ValueError('what it says')", 1, id="error"),
        pytest.param("import os; os._exit(7)", 7, id="at-once"),
        pytest.param("import os; os.kill(os.getpid(), 9)", -9, id="killed"),
        pytest.param("import atexit; atexit.register(print, 'last')", 0, id="last-words"),
    ],
)
def test_a_copy_ends_as_an_interpreter_does(code: str, status: int) -> None:
    copied = run_code(code)
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert copied.returncode == started.returncode == status
    assert copied.stdout == started.stdout
    assert started.stderr.splitlines()[-1:] == copied.stderr.splitlines()[-1:]


def test_copies_share_nothing() -> None:
    """What one changes in a module, the next does not see."""
    run_code("import torch; torch.set_default_dtype(torch.float64); import bathyscope; bathyscope.changed = 1")
    after = run_code("import torch, bathyscope; print(torch.get_default_dtype(), hasattr(bathyscope, 'changed'))")
    assert after.stdout == "torch.float32 False\n"


def test_a_copy_hears_signals_and_can_be_waited_for(tmp_path: Path) -> None:
    code = "import time; print('at work', flush=True); time.sleep(600)"
    out, err = tmp_path / "out", tmp_path / "err"
    program = warm.Program(["-c", code], os.environ, tmp_path, out, err)
    while not out.exists() or not out.read_text():
        assert program.poll() is None
        time.sleep(0.01)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.01)
    program.send_signal(signal.SIGINT)
    assert program.wait() == 1
    assert err.read_text().splitlines()[-1] == "KeyboardInterrupt"


def test_what_copies_cost_is_counted() -> None:
    before = warm.cpu_seconds()
    run_code("import time\nwhile time.process_time() < 0.3: pass")
    assert warm.cpu_seconds() - before > 0.25

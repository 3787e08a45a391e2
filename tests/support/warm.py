"""Programs that tests start without importing torch and its kin again: forked from one process that has them.

A program that a test starts spends most of its CPU seconds on imports. :func:`start` and :func:`run` take the words
that would follow ``python`` on a command line, ask one process (the fork server of the standard library, one for each
process of tests) for a copy of itself, and run the program there as its ``__main__``: with its own environment, working
folder, files for what it prints, signals and exit code. A copy starts as the process was after its imports.

What a new interpreter reads when it starts it reads no more: options such as ``-I``, ``PYTHONPATH`` and variables that
modules read when they are imported, except for those of :data:`ENVIRONMENT`. A test of any of these, of what is
imported, of pipes or of a terminal starts its program by ``subprocess``.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Final

import psutil
from support import any_machine

TESTS: Final = Path(__file__).parents[1]
ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
"""What every copy has in its environment when it imports: one thread, and no notes of the library."""
IMPORTED: Final = (
    "torch.distributed",
    "torch._dynamo",
    "transformers.models.auto.modeling_auto",
    "transformers.models.llama.modeling_llama",
    "transformers.generation.utils",
    "transformers.convert_slow_tokenizer",
    "transformers.trainer",
    "accelerate",
    "peft",
    "xarray",
    "h5netcdf",
    "pandas",
    "scipy.stats",
    "matplotlib.figure",
    "rich.progress",
    "bathyscope.cli.main",
    "bathyscope.extend",
    "bathyscope.surveying.execution",
    "bathyscope.surveying.training",
    "bathyscope.runs.opening",
    "bathyscope.pages",
)
"""Modules that the copied process imports first: those that cost most, and nothing that changes when it is imported."""


class Program:
    """A program at work, with the methods of :class:`subprocess.Popen` that need no pipe.

    Args:
        words: what would follow ``python``.
        environment: all of its environment.
        folder: where it works.
        out: the file that its standard output fills.
        err: the file of its errors.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, out: Path, err: Path
    ) -> None:
        _start_server()
        context = multiprocessing.get_context("forkserver")
        arguments = (list(words), dict(environment), str(folder), str(out), str(err))
        self._process = context.Process(target=_become, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, minus a signal's number; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code once it has ended; :class:`subprocess.TimeoutExpired` where that takes longer."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, seconds or 0.0)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    words: Sequence[str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float = 900.0,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its exit code and what it printed.

    Args:
        words: what would follow ``python``: ``-m``, a module and its arguments; ``-c`` and code; or a script's path.
        environment: all of its environment; this process's if None.
        folder: where it works; the folder of this process if None.
        seconds: after which it is killed, which is an error.
    """
    with tempfile.TemporaryDirectory(prefix="warm-") as place:
        out, err = Path(place, "out"), Path(place, "err")
        program = Program(words, os.environ if environment is None else environment, folder or Path.cwd(), out, err)
        try:
            code = program.wait(seconds)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            raise
        printed = (file.read_text(encoding="utf-8", errors="replace") for file in (out, err))
        return subprocess.CompletedProcess(list(words), code, *printed)


def cpu_seconds() -> float:
    """CPU seconds of all programs that have ended, which are no children of this process."""
    server = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if server is None:
        return 0.0
    # what has ended counts only among the children of the copied process
    times = psutil.Process(server).cpu_times()
    return float(times.children_user + times.children_system)


def _start_server() -> None:
    """Have the process that is copied run, with the path and the rounding of this one."""
    source = Path(importlib.import_module("bathyscope").__file__ or "").parents[1]
    before = dict(os.environ)
    forkserver.set_forkserver_preload([*IMPORTED, __name__])
    try:
        os.environ.update(ENVIRONMENT)
        os.environ["PYTHONPATH"] = any_machine.path(str(source), str(TESTS), before.get("PYTHONPATH", ""))
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _become(words: list[str], environment: dict[str, str], folder: str, out: str, err: str) -> None:
    """In the copy: be the program."""
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    try:
        _run(words)
    finally:
        # a copy ends without them otherwise
        atexit._run_exitfuncs()


def _run(words: list[str]) -> None:
    first, *rest = words
    if first in {"-m", "-c"}:
        what, *arguments = rest
        sys.argv = [first, *arguments]
        # as an interpreter does: the folder of work is where modules are looked for first
        sys.path.insert(0, os.getcwd() if first == "-m" else "")
        if first == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        return
    sys.argv = [first, *rest]
    sys.path.insert(0, str(Path(first).resolve().parent))
    runpy.run_path(first, run_name="__main__")

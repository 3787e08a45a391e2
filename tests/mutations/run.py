"""Puts small bugs into the code, one at a time, and asks whether the tests notice: ``make mutants``.

Each bug of ``bugs.py`` is written into a copy of the checkout, and the tests that it names run there, as far as ``make
test-all`` runs them. A bug is caught where one of them fails that passes without it. One that they let pass is tried on
all tests of its room and on the golden values: where those notice it, the table should name them; where they do not, it
is a hole in the tests. With ``--quick`` they run as far as ``make test`` runs them, and LATER is what ``make test-all``
catches alone.

    python tests/mutations/run.py [--quick] [NAME...]        exit code 1 where a bug survives
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from bug import Bug
from bugs import BUGS

REPOSITORY = Path(__file__).resolve().parents[2]
WORKERS = int(os.environ.get("WORKERS", "2"))
_COPIED = ("src", "packages", "studies", "tests", "docs", "benchmarks", "pyproject.toml", "README.md", "conftest.py")
_FAILED, _NONE_CHOSEN = 1, 5
"""Exit codes of pytest where tests failed, and where all are left out; others mean that it could not run them."""
ALL, QUICK = "not thorough", "not slow and not thorough"
"""What ``make test-all`` runs, and what ``make test`` runs."""


def copied(folder: Path) -> Path:
    """A checkout in ``folder`` that bugs can be written into, with the same neighbours as this one."""
    root = folder / "checkout"
    root.mkdir()
    for name in _COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)
    for neighbour in (REPOSITORY / "checkpoints", REPOSITORY.parent / "shared"):
        if neighbour.exists():
            place = root if neighbour.parent == REPOSITORY else folder
            (place / neighbour.name).symlink_to(neighbour.resolve())
    return root


def python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a copied checkout, on its packages and not on those that are installed."""
    paths = [root / "src", root / "packages/bathyscope-lab/src", root]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def require_the_copy(root: Path) -> None:
    """Refuses to go on where the copy's tests would import another checkout's code, and so never meet a bug."""
    look = "from importlib.util import find_spec; print(find_spec('bathyscope').origin)"
    origin = python(root, "-c", look).stdout.strip()
    if not Path(origin).is_relative_to(root):
        raise SystemExit(f"Tests in {str(root)!r} would import {origin!r}; unset what puts that first.")


def failing(root: Path, tests: Sequence[str], *, all_of_them: bool = False, chosen: str = ALL) -> list[str]:
    """Those of these tests that fail, of those chosen by their marks; the first one alone unless all are asked for.

    Raises:
        SystemExit: pytest could not run them.
    """
    how = () if all_of_them else ("-x",)
    done = python(root, "-m", "pytest", *how, "-q", "-m", chosen, "-p", "no:cacheprovider", *tests)
    lines = [line for line in done.stdout.splitlines() if line.strip()] or [done.stderr.strip()[-200:]]
    if done.returncode not in (0, _FAILED, *([_NONE_CHOSEN] if chosen == QUICK else [])):
        raise SystemExit(f"pytest could not run {' '.join(tests)} (exit code {done.returncode}): {lines[-1]}")
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return [line.partition(" ")[2].partition(" - ")[0] for line in failed]


def wider(bug: Bug) -> list[str]:
    """All tests of the bug's room, and the golden values."""
    room = f"tests/{bug.room}" if bug.room else f"tests/test_{bug.file}.py"
    return [room, "tests/goldens"]


def write_source(path: Path, text: str) -> None:
    """Writes a module, a second later by its clock than the text before.

    Tests keep bytecode, which is told apart by the whole second and the size of its source: without that second,
    bytecode with the bug would pass for the right text where a quick test has only put one sign in place of another.
    """
    later = path.stat().st_mtime + 1
    path.write_text(text, encoding="utf-8")
    os.utime(path, (later, later))


def tried(bug: Bug, root: Path, *, quick: bool = False) -> tuple[str, str]:
    """What became of a bug: a word, and the test that failed because of it ("" = none)."""
    path = root / bug.path
    right = path.read_text(encoding="utf-8")
    write_source(path, bug.put_into(right))
    try:
        first = [("caught   ", [bug.named], QUICK), ("LATER    ", [bug.named], ALL)]
        whole = [("caught   ", [bug.named], ALL)]
        for word, tests, marks in [*(first if quick else whole), ("ELSEWHERE", wider(bug), ALL)]:
            if failed := failing(root, tests, chosen=marks):
                return word, failed[0]
    finally:
        write_source(path, right)
    return "SURVIVED ", ""


def main(names: list[str], *, quick: bool = False) -> int:
    """Tries the bugs of these names, or all of them."""
    known = {bug.name: bug for bug in BUGS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"There is no bug {' or '.join(unknown)}; allowed: {', '.join(known)}.")
    chosen = [known[name] for name in names] or list(BUGS)
    noticed: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for worker in range(min(WORKERS, len(chosen))):
            place = Path(folder) / str(worker)
            place.mkdir()
            copies.put(copied(place))
            require_the_copy(place / "checkout")

        def one(bug: Bug) -> tuple[str, str]:
            root = copies.get()
            try:
                return tried(bug, root, quick=quick)
            finally:
                copies.put(root)

        for bug, (word, test) in zip(chosen, pool.map(one, chosen)):
            print(f"{word} {bug.name}{': ' if test else ''}{test}", flush=True)
            if test:
                noticed.setdefault(test, []).append(bug.name)
        anyway = failing(place / "checkout", list(noticed), all_of_them=True) if noticed else []
    for test in anyway:
        print(f"SURVIVED  {', '.join(noticed.pop(test, []))}: as far as is known, since {test} fails without any bug")
    caught = sum(map(len, noticed.values()))
    print(f"{caught} of {len(chosen)} caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main([name for name in sys.argv[1:] if name != "--quick"], quick="--quick" in sys.argv))

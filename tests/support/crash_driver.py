"""Runs a synthetic survey in child processes that are killed, and resumes it until it is finished.

Called as ``crash_driver.py FOLDER random SEED`` (the parent kills at random moments) or ``crash_driver.py
FOLDER every`` (the child kills itself before its n-th change of the disk, for every n). Children are
forked: a kill costs milliseconds and not the imports of a new interpreter. Prints what happened, as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.synthetic_runs import identity, small_shard, small_summary

from bathyscope.runs.writer import RunWriter

CHANGES = ("fsync", "replace", "unlink", "mkdir")
VERSIONS = {"versions": {"test": "1"}}


def survey(folder: Path, settings: dict[str, Any]) -> None:
    """Compute what is missing and finish, as a survey does."""
    with RunWriter.open(folder, settings, VERSIONS) as writer:
        if writer.is_finished:
            return
        for index in writer.missing:
            writer.write(index, small_shard(*settings["plan"][index]))
        writer.finish(small_summary(writer.merged()))


def in_child(work: Callable[[], None], kill_after: float | None = None) -> int:
    """Signal that ended a forked child (0: it ended by itself and well).

    Args:
        kill_after: seconds of computing after which the system ends the child, wherever it is.
    """
    child = os.fork()
    if child == 0:
        if kill_after is not None:
            signal.setitimer(signal.ITIMER_PROF, kill_after)  # SIGPROF ends a program that has no answer to it
        work()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"a child failed with status {os.WEXITSTATUS(status)}")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def random_kills(folder: Path, seed: int) -> dict[str, Any]:
    """Up to 15 kills at random moments (fewer where a child is through earlier); then one is let through.

    The moments are drawn within about one shard's computing time, which is the same however busy the machine is; it is
    learnt as the kills go on, since what a child does before its first shard counts too.
    """
    settings, draw = identity(9, batch=1), random.Random(seed)
    in_child(partial(survey, folder / "timed", settings))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    window = (used.ru_utime + used.ru_stime) / 9
    work = partial(survey, folder / "killed", settings)
    shards = [0]
    while len(shards) <= 15 and in_child(work, draw.uniform(0.05, 1.0) * window) != 0:
        shards.append(len(list(folder.glob("killed/shard-*.nc"))))
        window *= 1.4 if shards[-1] == shards[-2] else 0.8
    in_child(work)
    return {"kills": len(shards) - 1, "shards": shards}


def kill_before_every_change(folder: Path) -> dict[str, Any]:
    """For n = 1, 2, …: a fresh run dies before its n-th change of the disk and is resumed without a kill."""
    settings = identity(4, batch=2)
    for n in itertools.count(1):
        run = folder / f"killed-{n:03d}"
        if in_child(partial(_dying_survey, run, settings, n)) == 0:
            return {"kills": n - 1}
        in_child(partial(survey, run, settings))
    raise AssertionError("the count has no end")


def _dying_survey(folder: Path, settings: dict[str, Any], last_change: int) -> None:
    done = 0

    def watched(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == last_change:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*args, **options)

        return call

    for name in CHANGES:
        setattr(os, name, watched(getattr(os, name)))
    survey(folder, settings)


if __name__ == "__main__":
    where = Path(sys.argv[1])
    outcome = random_kills(where, int(sys.argv[3])) if sys.argv[2] == "random" else kill_before_every_change(where)
    print(json.dumps(outcome))

"""Runs a real survey in child processes that are killed, and resumes it until it is finished.

Called as ``survey_driver.py FOLDER KILLS SEED MEASURES``. Children are forked from a process that has already loaded
the model, so a kill costs milliseconds. The moments are drawn within the computing time that one whole run takes, and
children are killed by a timer of their computing time, so that it makes no difference how busy the machine is. Prints
how many shards were finished after each kill, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import waves, zoo

import bathyscope

LENGTHS = (20, 13, 17, 26, 9, 15, 22, 14, 18, 16, 12, 25)


def survey(out: Path | None, measures: str, lengths: tuple[int, ...] = LENGTHS) -> bathyscope.Run:
    """The survey that is killed and resumed."""
    model = waves.loaded("llama")
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(model.hf, lengths)]
    options: dict[str, Any] = {"repeat": {"length": 2}} if measures == "all" else {}
    return bathyscope.survey(model, prompts, measures, out, batch_tokens=40, progress=False, **options)


def in_child(out: Path, measures: str, kill_after: float | None = None) -> int:
    """Signal that ended a forked child (0: it ended by itself and well).

    Args:
        kill_after: seconds of computing after which the system ends the child, wherever it is.
    """
    child = os.fork()
    if child == 0:
        if kill_after is not None:
            signal.setitimer(signal.ITIMER_PROF, kill_after)  # SIGPROF ends a program that has no answer to it
        survey(out, measures)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"a child failed with status {os.WEXITSTATUS(status)}")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main(folder: Path, kills: int, seed: int, measures: str) -> dict[str, Any]:
    """Kills at random moments; then one run is let through.

    The moments are drawn within what a fair share of a whole run takes, and later where a kill came before anything
    new was finished.
    """
    draw = random.Random(seed)
    # a forked child of a process with running threads would wait for them forever
    torch.set_num_threads(1)
    survey(None, measures, LENGTHS[:1])  # everything is imported before the first fork
    in_child(folder / "whole", measures)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    window = (used.ru_utime + used.ru_stime) * 2 / (kills + 2)
    shards = [0]
    for _ in range(kills):
        in_child(folder / "killed", measures, draw.uniform(0.2, 1.0) * window)
        shards.append(len(list(folder.glob("killed/shard-*.nc"))))
        window *= 1.5 if shards[-1] == shards[-2] else 0.6
    in_child(folder / "killed", measures)
    return {"shards": shards[1:]}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))

"""Runs a real survey in child processes that are killed, and resumes it until it is finished.

Called as ``survey_driver.py FOLDER KILLS SEED``. Children are forked from a process that has already loaded
the model, so a kill costs milliseconds; the moments are drawn within the time one whole run takes. Prints how
many shards were finished after each kill, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import waves, zoo

import bathyscope

LENGTHS = (20, 13, 17, 26, 9, 15, 22, 14, 18, 16, 12, 25)
OPTIONS: dict[str, Any] = {"batch_tokens": 40, "repeat": {"length": 2}, "progress": False}


def survey(out: Path | None, lengths: tuple[int, ...] = LENGTHS) -> bathyscope.Run:
    """The survey that is killed and resumed."""
    model = waves.loaded("llama")
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(model.hf, lengths)]
    return bathyscope.survey(model, prompts, measures="all", out=out, **OPTIONS)


def in_child(out: Path, kill_after: float | None = None) -> int:
    """Signal that ended a forked child (0: it ended by itself and well)."""
    child = os.fork()
    if child == 0:
        survey(out)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"a child failed with status {os.WEXITSTATUS(status)}")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kills at random moments; then one run is let through.

    The moments are drawn within what a fair share of a whole run takes, and later where a kill came before
    anything new was finished: a busy machine is slower at one time than at another.
    """
    draw = random.Random(seed)
    # a forked child of a process with running threads would wait for them forever
    torch.set_num_threads(1)
    survey(None, LENGTHS[:1])  # everything is imported before the first fork
    began = time.monotonic()
    in_child(folder / "whole")
    window = (time.monotonic() - began) * 2 / (kills + 2)
    shards = [0]
    for _ in range(kills):
        in_child(folder / "killed", draw.uniform(0.2, 1.0) * window)
        shards.append(len(list(folder.glob("killed/shard-*.nc"))))
        window *= 1.5 if shards[-1] == shards[-2] else 0.6
    in_child(folder / "killed")
    return {"shards": shards[1:]}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))

"""What can happen to one of the processes that hold a model together, in the middle of a survey."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

BLOCK = 2


def survey(folder: str, prompts: str, out: str, fault: str, at: int, *more: str) -> int:
    """Survey by the command line on this rank, to which something happens where it is number ``at``.

    Args:
        fault: a name in ``FAULTS``; ``none`` = nothing happens.
    """
    from bathyscope.cli.main import main

    with pytest.MonkeyPatch.context() as patch:
        if int(os.environ["RANK"]) == at:
            FAULTS[fault](patch)
        measures = "residual,lens,attention_locality"
        words = ["survey", folder, "--prompts", prompts, "--measures", measures, "--out", out, "--quiet"]
        return main([*words, "--batch-tokens", "16", "--tensor-parallel", "auto", *more])


def _in_second_shard(patch: pytest.MonkeyPatch, happen: Callable[[], None]) -> None:
    """Let something happen in a block, when the first shard has been computed."""
    from bathyscope.model.anatomy.replay import Replay
    from bathyscope.surveying.computing import Computation

    run, write = Replay.run, Computation._write
    shards: list[int] = []

    def written(self: Computation, write_shard: Any, shard: Any) -> None:
        is_whole = len(shard.pieces) >= len(shard.units)
        write(self, write_shard, shard)
        if is_whole:
            shards.append(shard.index)

    def replayed(self: Replay, block: Any, index: int, *arguments: Any, **options: Any) -> Any:
        if shards and index == BLOCK:
            happen()
        return run(self, block, index, *arguments, **options)

    patch.setattr(Computation, "_write", written)
    patch.setattr(Replay, "run", replayed)


def _fail() -> None:
    raise RuntimeError("a block of this rank has failed")


def _killed(patch: pytest.MonkeyPatch) -> None:
    _in_second_shard(patch, lambda: os.kill(os.getpid(), signal.SIGKILL))


def _raises(patch: pytest.MonkeyPatch) -> None:
    _in_second_shard(patch, _fail)


def _interrupted(patch: pytest.MonkeyPatch) -> None:
    _in_second_shard(patch, lambda: os.kill(os.getpid(), signal.SIGINT))


def _terminated(patch: pytest.MonkeyPatch) -> None:
    _in_second_shard(patch, lambda: os.kill(os.getpid(), signal.SIGTERM))


def _full_disk(patch: pytest.MonkeyPatch) -> None:
    from bathyscope.runs import folder

    write = folder.write_atomically

    def refused(path: Any, content: bytes, *rest: Any) -> None:
        if path.name == "shard-00001.nc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, content, *rest)

    patch.setattr(folder, "write_atomically", refused)


def _nothing(patch: pytest.MonkeyPatch) -> None:
    pass


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "killed": _killed,
    "raises": _raises,
    "interrupted": _interrupted,
    "terminated": _terminated,
    "full disk": _full_disk,
    "none": _nothing,
}

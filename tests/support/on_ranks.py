"""Processes that hold one model together: started by ``launch``, each running a function of ``support``.

They meet at a file, so that no port is shared with anybody, and talk by gloo. ``python -m support.on_ranks`` is one of
them; they are copies of the process that :mod:`support.warm` keeps.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import warm

PATIENCE = 600.0
"""Seconds after which processes count as hanging, on a machine however busy."""


@dataclass(frozen=True)
class Ended:
    """How one process ended: its exit code (minus a signal), and what it printed."""

    code: int
    out: str
    err: str


class Processes:
    """The ranks of one model, at work.

    Args:
        size: how many.
        function: ``module:name`` in ``support``, called on each with ``arguments``.
        arguments: plain values.
        folder: where they meet, and where they work; a new one if None.
        by_rank: other arguments for some ranks.
    """

    def __init__(
        self,
        size: int,
        function: str,
        *arguments: Any,
        folder: Path | None = None,
        by_rank: dict[int, Sequence[Any]] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-")) if folder is None else folder
        meeting = Path(tempfile.mkdtemp(prefix="meeting-", dir=self.folder)) / "ranks"
        self.members: list[warm.Program] = []
        self._files: list[tuple[Path, Path]] = []
        for rank in range(size):
            environment = {
                **os.environ,
                **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)},
                **warm.ENVIRONMENT,
                "MEETING": str(meeting),
            }
            given = (by_rank or {}).get(rank, arguments)
            words = ["-m", "support.on_ranks", function, json.dumps(list(given))]
            files = (meeting.parent / f"out-{rank}", meeting.parent / f"err-{rank}")
            self.members.append(warm.Program(words, environment, self.folder, *files))
            self._files.append(files)

    def wait(self, seconds: float = PATIENCE) -> list[Ended]:
        """How all of them ended; those that have not after the time are killed, which is an error."""
        end = time.monotonic() + seconds
        hanging = []
        for rank, member in enumerate(self.members):
            try:
                member.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                hanging.append(rank)
        for rank in hanging:
            self.members[rank].send_signal(signal.SIGUSR1)
        time.sleep(1 if hanging else 0)
        for rank in hanging:
            self.members[rank].kill()
            self.members[rank].wait()
        ended = [
            Ended(member.wait(), *(file.read_text(encoding="utf-8", errors="replace") for file in files))
            for member, files in zip(self.members, self._files, strict=True)
        ]
        assert not hanging, f"ranks {hanging} hang: {[one.err[-1500:] for one in ended]}"
        return ended


def launch(size: int, function: str, *arguments: Any, folder: Path | None = None) -> list[Ended]:
    """Run a function of ``support`` on so many ranks to its end."""
    return Processes(size, function, *arguments, folder=folder).wait()


def require_done(ended: Sequence[Ended]) -> None:
    """Fail with what was said where a rank has failed."""
    assert [one.code for one in ended] == [0] * len(ended), "\n".join(one.err[-3000:] for one in ended)


def command(*arguments: str) -> int:
    """Run the command line in this process."""
    from bathyscope.cli.main import main

    return main(list(arguments))


def _join() -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    # where a rank hangs is said before it is killed
    faulthandler.register(signal.SIGUSR1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{os.environ['MEETING']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )


if __name__ == "__main__":
    _join()
    module, _, name = sys.argv[1].partition(":")
    code = getattr(importlib.import_module(f"support.{module}"), name)(*json.loads(sys.argv[2]))
    sys.exit(code or 0)

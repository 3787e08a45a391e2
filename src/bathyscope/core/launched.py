"""Which of several processes this one is, as the program that started them says (``torchrun``)."""

import os
from collections.abc import Mapping
from typing import Final

LAUNCH: Final = "torchrun --nproc-per-node {} -m bathyscope"
"""How several processes of one command are started, with their number."""


def launched_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of this process, from 0; 0 where it was started alone."""
    return _number(environment, "RANK", 0)


def launched_local_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of this process on its machine, which is that of its accelerator."""
    return _number(environment, "LOCAL_RANK", launched_rank(environment))


def launched_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many processes were started together; 1 where this one was started alone."""
    return max(1, _number(environment, "WORLD_SIZE", 1))


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else default

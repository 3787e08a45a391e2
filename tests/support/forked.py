"""Work in a forked child, for tests that end a process: it has the libraries that a new interpreter would load."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import torch


def forked(work: Callable[[], object]) -> int:
    """Number of a child process that does the work, answers signals as a new program does, and ends with status 0."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        torch.set_num_threads(1)  # those of the parent are not there
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child

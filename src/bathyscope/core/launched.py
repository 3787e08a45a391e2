"""Which of several processes this one is, as the program that started them says (``torchrun``)."""

import os
from collections.abc import Mapping
from typing import Final

from bathyscope.errors import OptionError

LAUNCH: Final = "torchrun --nproc-per-node {} -m bathyscope"
"""How several processes of one command are started, with their number."""

START_VARIABLE: Final = "BATHYSCOPE_START_TIMEOUT"
"""Seconds in which all processes have to be started and to find each other."""
START_SECONDS: Final = 600.0
"""What it holds by default."""
_MOST_SECONDS: Final = 1_000_000


def launched_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of this process, from 0; 0 where it was started alone."""
    return _number(environment, "RANK", 0)


def launched_local_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of this process on its machine, which is that of its accelerator."""
    return _number(environment, "LOCAL_RANK", launched_rank(environment))


def launched_processes(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many processes were started together; 1 where this one was started alone."""
    return max(1, _number(environment, "WORLD_SIZE", 1))


def launched_address(environment: Mapping[str, str] = os.environ) -> tuple[str, int] | None:
    """Return where rank 0 is to be found; None where the launcher does not say, or has a store there itself."""
    name, port = environment.get("MASTER_ADDR", ""), _number(environment, "MASTER_PORT", 0)
    # torch reads this variable of torchrun in the same way
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or not name or not 0 < port < 1 << 16:
        return None
    return name, port


def start_seconds(environment: Mapping[str, str] = os.environ) -> float:
    """Return in how many seconds all processes have to be started.

    Raises:
        OptionError: the variable holds no positive number.
    """
    text = environment.get(START_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else START_SECONDS
    except ValueError:
        seconds = -1.0
    if not 1 <= seconds <= _MOST_SECONDS:
        raise OptionError(
            f"{START_VARIABLE}={text[:40]} is no number of seconds from 1 to {_MOST_SECONDS}; give one, such as 120, "
            f"or leave it out ({START_SECONDS:.0f})."
        )
    return seconds


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else default

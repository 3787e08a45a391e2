"""How the processes of one model find each other: torch's process group, opened where a program has none.

Rank 0, or torchrun, has a store at an address that the launcher tells, and all others come to it. A rank that is slow
to begin is waited for; a stranger that listens there, or the store of another program, is refused.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any, Final

from bathyscope.core.launched import launched_local_rank, launched_processes, launched_rank
from bathyscope.errors import ModelError

_MEETING: Final = 600.0
"""Seconds in which all processes have to be started and to find each other."""
_ANSWER: Final = 30.0
"""Seconds in which torch's store answers whoever has reached it: by a thread that does nothing else."""
_AGAIN: Final = 0.2
"""Seconds until an address is tried again."""
_COLLECTIVE_HOURS: Final = 24
"""How long a collective may wait: rank 0 may compute for itself, and whoever is not there any more is heard."""
_OPENED: Final[list[bool]] = []
"""Whether the process group was opened here."""


def open_group() -> None:
    """Open torch's process group as the launcher says: nccl between GPUs, else gloo."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() > launched_local_rank()
    if on_gpu:
        torch.cuda.set_device(launched_local_rank())
    hours = timedelta(hours=_COLLECTIVE_HOURS)
    try:
        store = _meet()
        _call_roll(dist.PrefixStore("bathyscope", store))
        store.set_timeout(hours)
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=dist.PrefixStore("default_pg", store),
            rank=launched_rank(),
            world_size=launched_processes(),
            timeout=hours,
        )
    except (RuntimeError, ValueError, OSError) as error:
        text = " ".join(str(error).split())
        raise ModelError(
            f"The processes cannot find each other ({text[:200]}). torchrun sets MASTER_ADDR and MASTER_PORT; is that "
            "port in use (--master-port)?"
        ) from error
    _OPENED.append(True)


def _call_roll(store: Any) -> None:
    """Refuse a store at which other programs meet: those of this rank have been there, or rank 0 never comes.

    Raises:
        ValueError: another process of this rank is there.
        DistStoreError: rank 0 is not there within some minutes.
    """
    from datetime import timedelta

    if store.add(f"rank-{launched_rank()}", 1) > 1:
        raise ValueError(
            f"rank {launched_rank()} is there already at {_meeting_place()}, where another program meets, or this one "
            "was started twice"
        )
    store.wait(["rank-0"], timedelta(seconds=_MEETING))


def _meeting_place() -> str:
    return f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"


def _meet() -> Any:
    """Return torch's store at which all processes meet, or raise after some minutes.

    Raises:
        TimeoutError: whatever listens at the address is no store, or a process is missing.
    """
    from datetime import timedelta

    from torch.distributed.rendezvous import rendezvous

    patience = _MEETING
    if launched_rank() > 0:
        _await_listener()
        patience = _ANSWER
    stores: list[Any] = []
    errors: list[Exception] = []

    def connect() -> None:
        limit = timedelta(seconds=_MEETING)
        try:
            stores.append(next(rendezvous("env://", launched_rank(), launched_processes(), timeout=limit))[0])
        except Exception as error:
            errors.append(error)

    # torch waits for an answer without a limit, and a stranger at the port of rank 0 never gives one
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(patience)
    if errors:
        raise errors[0]
    if not stores:
        raise TimeoutError(
            f"rank {launched_rank()} had no answer from {_meeting_place()} within {patience:.0f} s, so that what "
            "listens there is not rank 0"
            if launched_rank() > 0
            else f"{launched_processes()} processes were not there within {patience:.0f} s"
        )
    return stores[0]


def _await_listener() -> None:
    """Return when something listens where rank 0 is to be: it may be started later, or be slow to begin.

    Raises:
        TimeoutError: nothing does within some minutes.
    """
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "")
    if address is None or not port.isdecimal():
        # torch says by itself which of them is missing
        return
    end = time.monotonic() + _MEETING
    while (fault := _reach(address, int(port))) is not None:
        if time.monotonic() > end:
            raise TimeoutError(
                f"nothing listened at {_meeting_place()} within {_MEETING:.0f} s ({fault}): rank 0 was not started"
            )
        time.sleep(_AGAIN)


def _reach(address: str, port: int) -> OSError | None:
    """Return why nothing can be reached at an address; None where something listens there."""
    try:
        socket.create_connection((address, port), _ANSWER).close()
    except OSError as error:
        return error
    return None


def close_group(is_whole: bool) -> None:
    """Close the process group that was opened here.

    Args:
        is_whole: all of its processes are still there.
    """
    import torch.distributed as dist

    # a group of which some are not there any more would be waited for
    if _OPENED and is_whole and dist.is_initialized():
        dist.destroy_process_group()

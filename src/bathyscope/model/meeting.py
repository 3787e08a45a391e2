"""torch's process group for the processes of one model, opened where a program has none."""

from __future__ import annotations

from typing import Any, Final

from bathyscope.core.launched import launched_local_rank, launched_processes, launched_rank, start_seconds
from bathyscope.errors import MeetingError
from bathyscope.model.gathering import RankSearch

_COLLECTIVE_HOURS: Final = 24
"""How long a collective may wait: rank 0 may compute for itself, and whoever is not there any more is heard."""
_OPENED: Final[list[bool]] = []
"""Whether the process group was opened here."""


def open_group(gathering: RankSearch | None) -> None:
    """Open torch's process group as the launcher says: nccl between GPUs, else gloo.

    Args:
        gathering: by which the processes find each other; None = torchrun has a store for them.

    Raises:
        MeetingError: they do not find each other.
    """
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() > launched_local_rank()
    if on_gpu:
        torch.cuda.set_device(launched_local_rank())
    hours = timedelta(hours=_COLLECTIVE_HOURS)
    try:
        store = _launchers_store() if gathering is None else gathering.store()
        store.set_timeout(hours)
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=dist.PrefixStore("default_pg", store),
            rank=launched_rank(),
            world_size=launched_processes(),
            timeout=hours,
        )
    except MeetingError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        text = " ".join(str(error).split())
        raise MeetingError(
            f"The processes cannot find each other ({text[:200]}). torchrun sets MASTER_ADDR and MASTER_PORT; is that "
            "port in use (--master-port)?"
        ) from error
    _OPENED.append(True)


def _launchers_store() -> Any:
    """Return the store that torchrun has for the processes that it started."""
    from datetime import timedelta

    from torch.distributed.rendezvous import rendezvous

    limit = timedelta(seconds=start_seconds())
    return next(rendezvous("env://", launched_rank(), launched_processes(), timeout=limit))[0]


def close_group(is_whole: bool) -> None:
    """Close the process group that was opened here.

    Args:
        is_whole: all of its processes are still there.
    """
    # a group of which some are not there any more would be waited for
    if not _OPENED or not is_whole:
        return
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()

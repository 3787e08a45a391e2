"""A Ray cluster: one that runs already, or one on this machine for as long as it is needed."""

import importlib.util
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

from bathyscope.errors import OptionError

_SECONDS: Final = 5.0
"""For a machine to answer at all."""


@contextmanager
def connected(address: str | None, workers: int | None, use_gpus: bool) -> Iterator[tuple[int, int]]:
    """Connect to Ray inside; gives the number of workers and the number of GPUs that each has, 0 or 1.

    A cluster that the calling program is connected to already is used, and left as it is.

    Args:
        address: ``host:port`` of a cluster, ``auto`` for the one that this machine belongs to; None = a cluster on this
            machine alone, begun here and ended here.
        workers: how many; None = one for each GPU.

    Raises:
        OptionError: Ray is not installed; nothing answers at the address; more workers than the cluster has room for.
    """
    if importlib.util.find_spec("ray") is None:
        raise OptionError("engine='ray' needs Ray; pip install 'bathyscope[ray]'.")
    import ray
    import torch

    if ray.is_initialized():
        yield _workers(workers, use_gpus)
        return
    if address is None and workers is None and not (use_gpus and torch.cuda.is_available()):
        # known before a cluster is started for it, which takes a good while
        raise _no_number()
    # a thread of Ray's prints what happens to workers to standard output, which is for results
    with redirect_stdout(sys.stderr):
        try:
            _begin(address, workers)
            yield _workers(workers, use_gpus)
        finally:
            ray.shutdown()


def _begin(address: str | None, workers: int | None) -> None:
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"address": address}
    if address is None:
        # more workers than cores are slow, and allowed to whoever asks for them on a machine of their own
        cores = max(workers or 1, os.cpu_count() or 1)
        options = {"address": "local", "include_dashboard": False, "num_cpus": cores}
    else:
        _require_an_answer(address)
    with _own_signals():
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        # whatever is wrong with a cluster, its own words say it best; of a failed start it raises Exception
        except Exception as error:
            where, hint = (
                ("a Ray cluster on this machine", "Ask for fewer workers, or survey without engine (--part 1/2).")
                if address is None
                else (
                    f"the Ray cluster at address={address!r}",
                    "Start one with 'ray start --head', or leave the address out (workers on this machine alone).",
                )
            )
            raise OptionError(f"{where} cannot be used: {_first_sentence(error)} {hint}") from error


def _require_an_answer(address: str) -> None:
    """Refuse an address that does not answer; Ray itself would try for minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        raise OptionError(
            f"address={address!r} is no address of a Ray cluster; give host:port (10.0.0.1:6379), or auto on a machine "
            "that belongs to the cluster. The process that writes the run has to be in the cluster (no ray://)."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise OptionError(
            f"Nothing answers at address={address!r} ({error}); give the host and port that 'ray start --head' "
            "printed, or leave the address out (workers on this machine alone)."
        ) from error


def _workers(requested: int | None, use_gpus: bool) -> tuple[int, int]:
    import ray

    resources = ray.cluster_resources()
    gpus, cores = int(resources.get("GPU", 0)) if use_gpus else 0, int(resources.get("CPU", 0))
    if requested is None and not gpus:
        raise _no_number()
    number = gpus if requested is None else requested
    room, what = (gpus, "GPU") if gpus else (cores, "core")
    if number > room:
        raise OptionError(
            f"workers={number}, and the cluster has {room} {what}{'s' * (room != 1)}, one for each worker; ask for at "
            f"most {room}" + (", or compute on cores (device='cpu', --device cpu)." if gpus else ".")
        )
    return number, 1 if gpus else 0


def _no_number() -> OptionError:
    return OptionError("Say how many workers (workers=4, --workers 4); without GPUs each takes one core.")


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the program's own answer to SIGTERM, which Ray replaces."""
    # signals are set in the main thread alone, by Ray too
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if in_main_thread else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _first_sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} …"

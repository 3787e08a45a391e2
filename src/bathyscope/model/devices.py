"""Names of dtypes and devices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from bathyscope.errors import ModelError

_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def as_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """A torch dtype from its name."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in _DTYPES:
        raise ModelError(f"Unknown dtype {dtype!r}; allowed: {', '.join(_DTYPES)}.")
    return _DTYPES[dtype]


def as_device(device: str | torch.device | None) -> torch.device:
    """The asked device, or the first accelerator, or the CPU.

    Raises:
        ModelError: no device of that name, or none that this torch can use.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"Unknown device {device!r}; try cpu, cuda or cuda:0.") from error
    if wanted.type == "cpu":
        return wanted
    here: Any = torch.backends.mps if wanted.type == "mps" else getattr(torch, wanted.type, None)
    count = 0
    if here is not None and hasattr(here, "is_available") and here.is_available():
        count = here.device_count() if hasattr(here, "device_count") else 1
    if (wanted.index or 0) >= count:
        what = f"{count} of that kind" if count else f"no {wanted.type.upper()} device"
        raise ModelError(f"Device {str(device)!r} asked for, but torch sees {what}; use --device cpu.")
    return wanted


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be had on a device; None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(told["MemAvailable"].split()[0]) << 10  # in KiB; files kept in memory make room
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None

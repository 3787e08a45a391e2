"""Names of dtypes, devices and implementations of attention."""

from typing import Any

import torch

from bathyscope.errors import ModelError

_DTYPES = ("float32", "float64", "bfloat16", "float16")


def as_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """A torch dtype from its name."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in _DTYPES:
        raise ModelError(f"Unknown dtype {dtype!r}; allowed: {', '.join(_DTYPES)}.")
    named: torch.dtype = getattr(torch, dtype)
    return named


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
    if wanted.type == "mps":
        raise ModelError(
            "Apple's GPUs (mps) hold no float64, in which distributions are compared; use device='cpu' (--device cpu)."
        )
    here: Any = getattr(torch, wanted.type, None)
    count = 0
    if here is not None and hasattr(here, "is_available") and here.is_available():
        count = here.device_count() if hasattr(here, "device_count") else 1
    if (wanted.index or 0) >= count:
        what = f"{count} of that kind" if count else f"no {wanted.type.upper()} device"
        raise ModelError(f"Device {str(device)!r} asked for, but torch sees {what}; use --device cpu.")
    return wanted

"""Names of dtypes, devices and implementations of attention."""

from typing import Any

import torch

from bathyscope.errors import ModelError, describe_value

_DTYPES = ("float32", "float64", "bfloat16", "float16")


def as_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Return a torch dtype from its name.

    Raises:
        ModelError: no such name.
    """
    if isinstance(dtype, torch.dtype):
        return dtype
    if not isinstance(dtype, str):
        is_tokenizer = hasattr(dtype, "convert_ids_to_tokens")
        hint = " A tokenizer goes under its name: load(model, tokenizer=…)." if is_tokenizer else ""
        raise ModelError(f"dtype must be a name such as bfloat16; {describe_value(dtype)} given.{hint}")
    if dtype not in _DTYPES:
        raise ModelError(f"Unknown dtype {dtype!r}; allowed: {', '.join(_DTYPES)}.")
    torch_dtype: torch.dtype = getattr(torch, dtype)
    return torch_dtype


def as_device(device: str | torch.device | None) -> torch.device:
    """Return the device of a name; of None the first accelerator, else the CPU.

    Raises:
        ModelError: no device of that name, or none that this torch can use.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"Unknown device {device!r}; try cpu, cuda or cuda:0.") from error
    if chosen.type == "cpu":
        # torch takes any number here, and there is one processor to it
        if chosen.index:
            raise ModelError(f"Device {str(device)!r}: torch numbers no processors; write cpu.")
        return chosen
    if chosen.type == "meta":
        raise ModelError("Device 'meta' holds no numbers to compute with; use a processor's or an accelerator's (cpu).")
    if chosen.type == "mps":
        raise ModelError(
            "Apple's GPUs (mps) hold no float64, in which distributions are compared; use device='cpu' (--device cpu)."
        )
    # each kind of device has a module of torch of its name (torch.cuda, torch.xpu)
    backend: Any = getattr(torch, chosen.type, None)
    count = 0
    if backend is not None and hasattr(backend, "is_available") and backend.is_available():
        count = backend.device_count() if hasattr(backend, "device_count") else 1
    if (chosen.index or 0) >= count:
        what = f"{count} of that kind" if count else f"no {chosen.type.upper()} device"
        raise ModelError(f"Device {str(device)!r} asked for, but torch sees {what}; use --device cpu.")
    return chosen

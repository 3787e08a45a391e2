"""What calls of a block may take: asked of the device and of the model, and not guessed."""

import re
from pathlib import Path
from typing import Final

import torch

from bathyscope.errors import ModelError, OptionError
from bathyscope.model.anatomy.anatomy import Anatomy, config_of

_UNITS: Final = {
    **{"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40},
}
_INNER: Final = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff", "moe_intermediate_size")
_SCORES: Final = 3
"""Float32 copies of attention's weights that live at once where they are formed in the open."""


def as_bytes(given: str | int) -> int:
    """A number of bytes from a text such as ``"20GB"`` or ``"512MiB"``.

    Raises:
        OptionError: no such number, or none above 0.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b?)\s*", str(given), re.IGNORECASE)
    unit = found[2].upper() if found else ""
    scale = _UNITS.get(unit if unit.endswith("B") else f"{unit}B")
    if found is None or scale is None or isinstance(given, bool) or int(float(found[1]) * scale) < 1:
        raise OptionError(f"memory={given!r} is no amount of memory; give it as 20GB, 512MiB or a number of bytes.")
    return int(float(found[1]) * scale)


def bytes_per_token(anatomy: Anatomy, tokens: int, device: torch.device | None = None) -> int:
    """What a call of a block takes for each of its tokens beside the states of rows, which have room of their own.

    The MLP's three arrays and four of the stream's width; and where attention's weights are formed in the open, three
    copies of a token's.

    Args:
        tokens: of the prompt that a token belongs to.
        device: where it runs; None = on a CPU.
    """
    dtype = anatomy.dtype or torch.float32
    found = dtype.itemsize * (3 * _inner(anatomy) + 4 * anatomy.width)
    if _attends_in_the_open(anatomy, dtype, device):
        heads = int(getattr(config_of(anatomy.model), "num_attention_heads", 1) or 1)
        found += heads * tokens * max(dtype, torch.float32, key=lambda one: one.itemsize).itemsize * _SCORES
    return found


def _attends_in_the_open(anatomy: Anatomy, dtype: torch.dtype, device: torch.device | None) -> bool:
    """Whether all weights of a call's attention exist at once.

    CUDA's fused kernels take no float64, and in float32 no fewer heads of keys than of queries.
    """
    config = config_of(anatomy.model)
    if str(getattr(config, "_attn_implementation", "sdpa")) == "eager":
        return True
    heads, shared = (getattr(config, f"num_{name}_heads", None) for name in ("attention", "key_value"))
    wide = dtype == torch.float64 or (dtype == torch.float32 and shared not in (None, heads))
    return wide and device is not None and device.type == "cuda"


def tokens_that_fit(anatomy: Anatomy, longest: int, room: int, most: int, device: torch.device | None = None) -> int:
    """Tokens in one call of a block that fit into ``room`` bytes: no more than ``most``, and one row at least.

    The control that rides in a call is counted beside them (see ``control_rides``).

    Args:
        longest: tokens of the longest prompt.
        device: where it runs; None = on a CPU.
    """
    beside = longest if control_rides(anatomy.dtype or torch.float32) else 0
    return max(longest, min(most, room // bytes_per_token(anatomy, longest, device) - beside))


def control_rides(dtype: torch.dtype) -> bool:
    """Whether each call carries a control row of its own, since a product depends on the batch that it is in.

    In float32 rows do not depend on each other's number, and one control for all calls of a block is exact to rounding.
    """
    return dtype not in (torch.float32, torch.float64)


def _inner(anatomy: Anatomy) -> int:
    """The width of the MLP's inner layer, by the configuration's word for it, else by the widest matrix of a block."""
    config = config_of(anatomy.model)
    named = [getattr(config, name, None) for name in _INNER]
    # some configurations have one for each block
    known = [max(one) if isinstance(one, list | tuple) else one for one in named if one]
    numbers = [int(one) for one in known if isinstance(one, int)]
    if numbers:
        return max(numbers)
    return max((max(p.shape[-2:]) for p in anatomy.blocks[0].parameters() if p.ndim > 1), default=4 * anatomy.width)


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be had on a device; None where the system does not tell."""
    if device.type == "cuda":
        # what torch has taken and does not use is not the driver's to give, but ours
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(told["MemAvailable"].split()[0]) << 10  # in KiB; files kept in memory make room
    except (OSError, KeyError, ValueError):
        return None


def out_of_memory(what: str, device: torch.device) -> ModelError:
    """The refusal of something that is too large even by itself."""
    free = free_bytes(device)
    room = "" if free is None else f", where {free / 1e9:.2f} GB are free"
    return ModelError(
        f"{what} does not fit into the memory of {device}{room}. Give shorter prompts, a narrower dtype "
        "(dtype='bfloat16'), or a device with more memory; weights can be streamed (placement='stream')."
    )

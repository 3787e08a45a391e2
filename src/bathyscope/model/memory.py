"""How much memory calls of a block may take, by what the device and the model say."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

import torch

from bathyscope.errors import ModelError, OptionError, describe_value
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.configurations import block_values
from bathyscope.model.anatomy.precision import wide_dtype

_UNITS: Final = {
    **{"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40},
}
_INNER: Final = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff", "moe_intermediate_size")
_SCORES: Final = 3
"""Float32 copies of attention's weights that live at once where they are formed in the open."""
_CACHED_BYTES: Final = 48 << 20
"""What a call takes whose arrays, three or four of which are in use at a time, stay in a CPU's last cache."""
_FEWEST_CACHED: Final = 1024
"""Tokens of a call below which reading the weights costs more than the cache gains."""
_REUSED_BYTES: Final = 24 << 20
"""Larger than any array of compared predictions, and within what glibc takes as a limit (32 MiB)."""
KEPT_BYTES: Final = 4 * _REUSED_BYTES
"""What glibc then keeps of freed arrays: twice the limit at the end of its heap, and as much between arrays in use."""


def as_bytes(amount: str | int) -> int:
    """Return the number of bytes of a text such as ``"20GB"`` or ``"512MiB"``.

    Raises:
        OptionError: no such number, or none above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b?)\s*", str(amount), re.IGNORECASE)
    unit = match[2].upper() if match else ""
    scale = _UNITS.get(unit if unit.endswith("B") else f"{unit}B")
    if match is None or scale is None or isinstance(amount, bool) or int(float(match[1]) * scale) < 1:
        raise OptionError(
            f"memory={describe_value(amount)} is no amount of memory; give it as 20GB, 512MiB or a number of bytes."
        )
    return int(float(match[1]) * scale)


def bytes_per_token(anatomy: Anatomy, tokens: int, device: torch.device | None = None) -> int:
    """Return what a call of a block takes for each of its tokens; the states of rows have room of their own.

    The MLP's three arrays and four of the stream's width; and where attention's weights are formed in the open, three
    copies of a token's.

    Args:
        tokens: of the prompt that a token belongs to.
        device: where it runs; None = on a CPU.
    """
    dtype = anatomy.dtype or torch.float32
    nbytes = dtype.itemsize * (3 * _inner(anatomy) + 4 * anatomy.width)
    if _attends_in_the_open(anatomy, dtype, device):
        heads = int(max(block_values(config_of(anatomy.model), "num_attention_heads"), default=1))
        # softmax runs in float32 at least
        nbytes += heads * tokens * wide_dtype(dtype).itemsize * _SCORES
    return nbytes


def cached_tokens(anatomy: Anatomy) -> int:
    """Return the tokens of a call on a CPU beyond which norms, activations and sums wait for memory."""
    return max(_FEWEST_CACHED, _CACHED_BYTES // bytes_per_token(anatomy, 0))


def _attends_in_the_open(anatomy: Anatomy, dtype: torch.dtype, device: torch.device | None) -> bool:
    """Whether all weights of a call's attention exist at once.

    CUDA's fused kernels take no float64, and in float32 no fewer heads of keys than of queries.
    """
    config = config_of(anatomy.model)
    if str(getattr(config, "_attn_implementation", "sdpa")) == "eager":
        return True
    heads, shared = (block_values(config, f"num_{name}_heads") for name in ("attention", "key_value"))
    fewer = bool(shared) and set(shared) != set(heads)
    wide = dtype == torch.float64 or (dtype == torch.float32 and fewer)
    return wide and device is not None and device.type == "cuda"


def tokens_that_fit(anatomy: Anatomy, longest: int, room: int, most: int, device: torch.device | None = None) -> int:
    """Return the tokens of one call that fit into ``room`` bytes: no more than ``most``, and one row at least.

    The control that rides in a call takes tokens of its own (see ``control_rides``).

    Args:
        longest: tokens of the longest prompt.
        device: where it runs; None = on a CPU.
    """
    control_tokens = longest if control_rides(anatomy.dtype or torch.float32) else 0
    return max(longest, min(most, room // bytes_per_token(anatomy, longest, device) - control_tokens))


def control_rides(dtype: torch.dtype) -> bool:
    """Whether each call carries a control row of its own, since a product depends on the batch that it is in.

    In float32 rows depend on each other's number by rounding alone, and one control serves all calls of a block.
    """
    return dtype not in (torch.float32, torch.float64)


def _inner(anatomy: Anatomy) -> int:
    """Return the width of the MLP's inner layer: by the configuration, else that of a block's widest matrix."""
    config = config_of(anatomy.model)
    named = [value for name in _INNER for value in block_values(config, name)]
    # some configurations have one for each block
    widths = [max(width) if isinstance(width, list | tuple) else width for width in named if width]
    numbers = [int(width) for width in widths if isinstance(width, int)]
    if numbers:
        return max(numbers)
    return max((max(p.shape[-2:]) for p in anatomy.blocks[0].parameters() if p.ndim > 1), default=4 * anatomy.width)


def free_bytes(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated on a device; None where the system does not tell."""
    if device.type == "cuda":
        # what torch has reserved and does not use counts as taken for the driver, and is free for this process
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        meminfo = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        # in KiB; not MemFree, since the system's cache of files makes room when it is needed
        return int(meminfo["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return None


@lru_cache(maxsize=1)
def reuse_freed_memory() -> None:
    """Make the C library reuse freed arrays of up to 24 MiB, instead of returning each of them to the system.

    Pages of new memory are cleared when they are first touched. For passes over a few MiB that takes longer than their
    arithmetic. glibc raises its limits to the size of the largest array freed so far: here, of one that is never
    touched. Up to twice as much may then stay with the process. Other C libraries do as they always do.
    """
    torch.empty(_REUSED_BYTES, dtype=torch.uint8)


def out_of_memory(what: str, device: torch.device) -> ModelError:
    """Return the refusal of something that is too large even by itself."""
    free = free_bytes(device)
    room = "" if free is None else f", where {free / 1e9:.2f} GB are free"
    return ModelError(
        f"{what} does not fit into the memory of {device}{room}. Give shorter prompts, a narrower dtype "
        "(dtype='bfloat16'), or a device with more memory; weights can be streamed (placement='stream')."
    )

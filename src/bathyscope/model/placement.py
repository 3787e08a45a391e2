"""Where a model's weights are while it is measured: all in memory, or block by block from disk."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from bathyscope.core.foreign import read_regular
from bathyscope.errors import ModelError, warn
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.classes import class_for
from bathyscope.model.files import INDEX, SINGLE, indexed
from bathyscope.model.memory import free_bytes
from bathyscope.model.streaming.files import CheckpointFile, Place

STATE_BYTES: Final = 512 << 20
"""Room for rows, readouts and scratch space besides the weights, at least."""


def is_streamed(
    name: str,
    folder: Path,
    placement: str,
    dtype: torch.dtype | None,
    device: torch.device,
    unpacked_bytes: int | None = None,
) -> bool:
    """Whether a checkpoint's blocks are to be streamed; one that does not fit is, and a warning says so.

    Args:
        folder: where its files are; of a model on the hub, those that have been fetched.
        unpacked_bytes: what its weights take once they are unpacked; None = they are stored as they are loaded.
    """
    if placement != "auto":
        return placement == "stream"
    needed, free = unpacked_bytes or _weight_bytes(folder, dtype), free_bytes(device)
    if needed is None or free is None or needed + STATE_BYTES <= free:
        return False
    warn(
        f"{name} takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free on {device}: its blocks are streamed "
        "from disk (placement='resident' loads all of it)."
    )
    return True


def device_map(source: str, config: Any, trust_remote_code: bool, device: torch.device) -> dict[str, str]:
    """Return transformers' map of devices with blocks on disk, and everything else on a device.

    Args:
        source: the checkpoint's name, for messages.

    Raises:
        ModelError: accelerate is missing, a quantised checkpoint, or blocks that cannot be found without weights.
    """
    if find_spec("accelerate") is None:
        raise ModelError("Streaming a model needs accelerate; pip install 'bathyscope[stream]'.")
    if getattr(config, "quantization_config", None) is not None:
        raise ModelError(
            f"{source} is quantised, and quantised blocks cannot be streamed; load it with placement='resident', or "
            "give the checkpoint before it was quantised."
        )
    outline = outline_of(config, trust_remote_code)
    return dict(_places(outline, "", blocks_of(outline), str(device)))


def outline_of(config: Any, trust_remote_code: bool) -> nn.Module:
    """Return a model without weights: the names of modules are known to a model alone."""
    with torch.device("meta"):
        outline: nn.Module = class_for(config).from_config(config, trust_remote_code=trust_remote_code)
    return outline


def straight_to(device: torch.device) -> dict[str, Any]:
    """Return arguments of ``from_pretrained`` under which each tensor goes from its file straight to an accelerator.

    Without accelerate the model passes through the host's memory as a whole.
    """
    return {"device_map": {"": device}} if device.type != "cpu" and find_spec("accelerate") is not None else {}


def blocks_of(hf: nn.Module) -> str:
    """Return the path of a model's list of blocks, found without running it; of several lists all, joined by `` + ``.

    Raises:
        ModelError: no such list.
    """
    types = (str(getattr(hf.config, "model_type", "")), str(getattr(config_of(hf), "model_type", "")))
    for family in (family_for(kind) for kind in types):
        if family is not None and all(isinstance(submodule(hf, p), nn.ModuleList) for p in family.block_lists):
            return family.blocks
    number = getattr(config_of(hf), "num_hidden_layers", None)
    lists = [path for path, m in hf.named_modules() if isinstance(m, nn.ModuleList) and len(m) == number]
    if not lists:
        raise ModelError(
            f"The blocks of {type(hf).__name__} cannot be found without its weights, so that they cannot be streamed, "
            "nor a survey of it estimated; load it with placement='resident', which searches them."
        )
    return min(lists, key=lambda path: path.count("."))


def _places(module: nn.Module, prefix: str, blocks: str, device: str) -> Any:
    """Yield names and places of everything, down to the blocks and no further than needed elsewhere."""
    for name in (*module._parameters, *module._buffers):
        yield f"{prefix}{name}", device
    for name, child in module.named_children():
        path = f"{prefix}{name}"
        lists = blocks.split(" + ")
        if path in lists:
            yield from ((f"{path}.{number}", "disk") for number, _ in child.named_children())
        elif any(listed.startswith(f"{path}.") for listed in lists):
            yield from _places(child, f"{path}.", blocks, device)
        else:
            yield path, device


def _weight_bytes(folder: Path, dtype: torch.dtype | None) -> int | None:
    """Return the bytes of a checkpoint's tensors in memory; None where only its files would tell."""
    names = [SINGLE] if (folder / SINGLE).is_file() else indexed(folder)
    if not names or not all((folder / name).is_file() for name in names):
        return _announced_bytes(folder, dtype)
    places = [place for name in names for place in CheckpointFile(folder / name).places.values()]
    return sum(_in_memory(place, dtype) for place in places)


def _in_memory(place: Place, dtype: torch.dtype | None) -> int:
    stored = place.dtype
    if stored is None or dtype is None or not stored.is_floating_point:
        return place.stop - place.start
    return (place.stop - place.start) // stored.itemsize * dtype.itemsize


def _announced_bytes(folder: Path, dtype: torch.dtype | None) -> int | None:
    """Return the bytes by the index of files that are still on the hub."""
    if not (folder / INDEX).is_file():
        return None
    metadata = json.loads(read_regular(folder / INDEX, folder)).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(size, int | float):
        return None
    declared = json.loads(read_regular(folder / "config.json", folder))
    named = str(declared.get("dtype") or declared.get("torch_dtype") or "float32").removeprefix("torch.")
    stored = getattr(torch, named, None)
    scale = 1.0 if dtype is None or not isinstance(stored, torch.dtype) else dtype.itemsize / stored.itemsize
    return int(size * scale)

"""What a model computes with beside the values of its weights, read from the modules by nobody's help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

_PLAIN = (bool, int, float, str, type(None))
_OF_FILES = ("name_or_path",)


def from_disk(hf: PreTrainedModel, folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """Return a model as its class loads it when it was saved; text parts of multimodal models have no other way."""
    hf.save_pretrained(folder)
    return type(hf).from_pretrained(folder, dtype=dtype)


def facts_of(hf: PreTrainedModel) -> dict[str, Any]:
    """Return dtypes of all tensors, values of tables that no checkpoint holds, and plain constants of modules."""
    facts: dict[str, Any] = {name: value.dtype for name, value in hf.named_parameters()}
    in_files = set(hf.state_dict())
    for name, buffer in hf.named_buffers():
        facts[name] = buffer.dtype, None if name in in_files else buffer.tolist()
    for path, module in hf.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, _PLAIN) and not key.startswith("_") and key not in _OF_FILES:
                facts[f"{path}.{key} (constant)"] = value
    return facts


def facts_by_shape(hf: PreTrainedModel, n_blocks: int) -> dict[str, list[str]]:
    """Return the same facts with the numbers of blocks left out, as sorted lists: those of any order of the blocks."""
    places = {str(place) for place in range(n_blocks)}
    lists: dict[str, list[str]] = {}
    for name, fact in facts_of(hf).items():
        parts = name.split(".")
        block = next((index for index, part in enumerate(parts) if part in places), None)
        key = name if block is None else ".".join([*parts[:block], "*", *parts[block + 1 :]])
        if not key.endswith(("layer_idx (constant)", "layer_id (constant)", "block_idx (constant)")):
            lists.setdefault(key, []).append(repr(fact))
    return {key: sorted(values) for key, values in lists.items()}

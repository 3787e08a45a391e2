"""bitsandbytes: eight bits with a scale for each row, or four bits that stand for 16 numbers with one for each block.

The layout is that of bitsandbytes 0.50 as transformers saves it. Eight bits: ``weight`` (int8) and ``SCB``, the largest
magnitude of each row, which 127 stands for. Four bits: ``weight`` holds two places of ``weight.quant_map`` a byte, the
higher half first; ``weight.absmax`` has the largest magnitude of each block, itself packed in eight bits where
quantisation is double; block sizes and shape are JSON in ``weight.quant_state.bitsandbytes__nf4``.
"""

import json
from collections.abc import Mapping
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from bathyscope.model.packed.packing import PackedLayout, Packing, StoredParts
from bathyscope.model.streaming.files import Place

_STATE: Final = "quant_state.bitsandbytes__"
_MAPS: Final = ("absmax", "quant_map", "nested_absmax", "nested_quant_map", *(f"{_STATE}{k}" for k in ("nf4", "fp4")))
_LARGEST: Final = 7.874015718698502e-3
"""1 / 127, as bitsandbytes multiplies by it."""
_MOST_BYTES: Final = 1 << 16


class Bitsandbytes(Packing):
    """bitsandbytes in 8 bits (LLM.int8) and in 4 bits (nf4, fp4; double quantisation too)."""

    method = "bitsandbytes"

    @property
    def rounds_activations(self) -> bool:
        return bool(self.declared.get("load_in_8bit") or self.declared.get("_load_in_8bit"))

    def part_of(self, name: str) -> tuple[str, str] | None:
        for part in _MAPS:
            if name.endswith(f".{part}"):
                return name.removesuffix(f".{part}"), part
        for part in ("SCB", "weight_format"):
            if name.endswith(f".{part}"):
                return f"{name.removesuffix(part)}weight", part
        return name, "weight"

    def is_packed(self, places: Mapping[str, Place]) -> bool:
        return set(places) != {"weight"}

    def layout(self, parts: StoredParts) -> PackedLayout:
        kind = next((part.removeprefix(_STATE) for part in parts.places if part.startswith(_STATE)), None)
        if kind is None:
            return self._layout_of_bytes(parts)
        nested = {"nested_absmax": 1, "nested_quant_map": 1} if "nested_absmax" in parts.places else {}
        parts.require({"absmax": 1, "quant_map": 1, "weight": 2, **nested})
        state = _read_state(parts, f"{_STATE}{kind}")
        shape, size = tuple(state["shape"]), state["blocksize"]
        count = prod(shape)
        place = parts.places["weight"]
        if place.stop - place.start != -(-count // 2):
            raise parts.refusal(f"holds {place.stop - place.start} bytes for {count} numbers of 4 bits", _DAMAGED)
        parts.require_shape("absmax", (-(-count // size),), f"a block size of {size} for {count} numbers")
        parts.require_shape("quant_map", (16,), "4 bits")
        if nested:
            blocks, nested_size = parts.shape("absmax")[0], state["nested_blocksize"]
            parts.require_whole("absmax")
            parts.require_shape("nested_quant_map", (256,), "8 bits")
            parts.require_shape("nested_absmax", (-(-blocks // nested_size),), f"a block size of {nested_size}")
        double = ", double quantisation" if nested else ""
        return PackedLayout(shape, f"{kind}, block {size}{double}", 4, (size,))

    def _layout_of_bytes(self, parts: StoredParts) -> PackedLayout:
        parts.require({"weight": 2, "SCB": 1})
        if parts.places["weight"].dtype is not torch.int8:
            raise parts.refusal("is not stored in int8", _DAMAGED)
        # other layouts were those of kernels that no longer exist
        parts.require_whole("weight_format")
        if "weight_format" in parts.places and parts.read("weight_format").any():
            raise parts.refusal("is laid out for one kind of GPU", "Save it again with a newer bitsandbytes.")
        shape = parts.shape("weight")
        parts.require_shape("SCB", shape[:1], f"a scale for each of {shape[0]} rows")
        return PackedLayout(shape, "8-bit, per channel", 8, (1, shape[1]))

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        if layout.bits == 8:
            return parts["weight"].float() * parts["SCB"].float()[:, None] * _LARGEST
        # the bytes may be stored as numbers of two or four bytes each
        packed_N = parts["weight"].contiguous().flatten().view(torch.uint8)
        places_N = torch.stack([packed_N >> 4, packed_N & 15], -1).flatten()[: prod(layout.shape)]
        scales_N = _absmax(parts).repeat_interleave(min(layout.block[0], len(places_N)))[: len(places_N)]
        return (parts["quant_map"].float()[places_N.long()] * scales_N).reshape(layout.shape)


_DAMAGED = "The checkpoint is damaged or was saved by another program; save it again with transformers."


def _absmax(parts: Mapping[str, Tensor]) -> Tensor:
    """Return the largest magnitude of each block, unpacked where it is packed itself."""
    if "nested_absmax" not in parts:
        return parts["absmax"].float()
    state = _parse(next(value for name, value in parts.items() if name.startswith(_STATE)))
    places = parts["absmax"].long()
    size = min(state["nested_blocksize"], len(places))
    scales = parts["nested_absmax"].float().repeat_interleave(size)[: len(places)]
    return parts["nested_quant_map"].float()[places] * scales + torch.tensor(state["nested_offset"])


def _parse(stored: Tensor) -> dict[str, Any]:
    return dict(json.loads(bytes(stored.tolist()).decode("utf-8")))


def _read_state(parts: StoredParts, part: str) -> dict[str, Any]:
    """Read the JSON that says shape and block sizes.

    Raises:
        ModelError: no JSON, or other values.
    """
    state: dict[str, Any] = {}
    if len(parts.shape(part)) == 1 and parts.shape(part)[0] <= _MOST_BYTES:
        try:
            state = _parse(parts.read(part))
        except (ValueError, TypeError, RecursionError):
            state = {}
    shape, sizes = state.get("shape"), [state.get("blocksize")]
    if "nested_absmax" in parts.places:
        sizes.append(state.get("nested_blocksize"))
    numbers = [*shape, *sizes] if isinstance(shape, list) else [None]
    offset = state.get("nested_offset", 0.0)
    if not all(isinstance(number, int) and number > 0 for number in numbers) or not isinstance(offset, int | float):
        raise parts.refusal(f"has a {part} that cannot be read", _DAMAGED)
    return state

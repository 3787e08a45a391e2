"""FP8 with a scale for each block: weights of eight bits in floating point, as DeepSeek-V3 and Qwen publish theirs.

The layout is that of transformers' ``fp8`` method (5.23): next to ``NAME`` in float8 lies ``NAME_scale_inv``, by which
it is multiplied, one number for each block of ``weight_block_size`` or one for all; experts have one axis more.
"""

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from bathyscope.model.packed.bits import as_scale, spread
from bathyscope.model.packed.packing import PackedLayout, Packing, StoredParts, as_block
from bathyscope.model.streaming.files import Place

_SCALE: Final = "_scale_inv"
_FLOATS: Final = (torch.float8_e4m3fn, torch.float8_e5m2)


class Fp8(Packing):
    """FP8 in blocks, each with a scale."""

    method = "fp8"

    @property
    def rounds_activations(self) -> bool:
        return True

    def part_of(self, name: str) -> tuple[str, str] | None:
        if name.endswith((".activation_scale", ".input_scale")):
            return None
        return (name.removesuffix(_SCALE), "scale_inv") if name.endswith(_SCALE) else (name, "weight")

    def is_packed(self, places: Mapping[str, Place]) -> bool:
        return set(places) != {"weight"} or places["weight"].dtype in _FLOATS

    def layout(self, parts: StoredParts) -> PackedLayout:
        parts.require({"weight": len(parts.shape("weight")) if "weight" in parts.places else 0})
        shape = parts.shape("weight")
        parts.require({"scale_inv": len(parts.shape("scale_inv")) if "scale_inv" in parts.places else 0})
        scales = parts.shape("scale_inv")
        if all(size == 1 for size in scales):
            return PackedLayout(shape, "per tensor", 8, shape)
        size = as_block(self.declared.get("weight_block_size"))
        if size is None or len(shape) < 2:
            raise parts.refusal("has a scale for each block", "Its quantization_config says no weight_block_size.")
        block = (*(1 for _ in shape[:-2]), *size)
        expected = tuple(-(-length // blocked) for length, blocked in zip(shape, block))
        parts.require_shape("scale_inv", expected, f"a weight_block_size of {'×'.join(map(str, size))}")
        return PackedLayout(shape, f"block {'×'.join(map(str, size))}", 8, block)

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        scales = as_scale(parts["scale_inv"])
        if scales.numel() == 1:
            return parts["weight"].float() * scales.reshape(())
        return parts["weight"].float() * spread(scales, layout.shape, layout.block)

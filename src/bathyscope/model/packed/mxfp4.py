"""MXFP4: numbers of four bits with a power of two for every 32 of them, as GPT-OSS stores its experts.

The layout is that of the published GPT-OSS: ``NAME_blocks`` [experts, outputs, groups, 16] of two numbers a byte, and
``NAME_scales`` [experts, outputs, groups] of exponents. The model has its experts as [experts, inputs, outputs].
"""

from collections.abc import Mapping
from typing import Final

from torch import Tensor

from bathyscope.model.packed.bits import as_scale, unpack_fp4
from bathyscope.model.packed.packing import PackedLayout, Packing, StoredParts

_PARTS: Final = ("blocks", "scales")
_GROUP: Final = 32


class Mxfp4(Packing):
    """MXFP4, of experts."""

    method = "mxfp4"

    def part_of(self, name: str) -> tuple[str, str] | None:
        part = next((part for part in _PARTS if name.endswith(f"_{part}")), None)
        return (name, "weight") if part is None else (name.removesuffix(f"_{part}"), part)

    def layout(self, parts: StoredParts) -> PackedLayout:
        parts.require({"blocks": 4, "scales": 3})
        experts, outputs, groups, size = parts.shape("blocks")
        parts.require_shape("blocks", (experts, outputs, groups, _GROUP // 2), f"groups of {_GROUP}")
        parts.require_shape("scales", (experts, outputs, groups), f"an exponent for every {_GROUP}")
        return PackedLayout((experts, groups * 2 * size, outputs), f"group {_GROUP}", 4, (1, _GROUP, 1))

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        numbers = unpack_fp4(parts["blocks"]) * as_scale(parts["scales"])[..., None]
        return numbers.flatten(-2).transpose(1, 2).contiguous()

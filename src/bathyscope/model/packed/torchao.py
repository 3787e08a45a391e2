"""torchao: whole numbers or floats of eight bits, with a scale (and a zero) for each row, group or tensor.

The layout is that of torchao 0.18 as transformers saves it: ``weight`` becomes ``_weight_qdata``, ``_weight_scale`` and
``_weight_zero_point``, and the file's metadata names the kind of tensor. Kinds that are packed for one kernel
(Int4Tensor and its kin) are laid out by the device that they were made on, and are not unpacked.
"""

import re
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from bathyscope.model.packed.bits import spread
from bathyscope.model.packed.packing import MISMATCH, PackedLayout, Packing, StoredParts
from bathyscope.model.streaming.files import Place

_PARTS: Final = ("qdata", "scale", "zero_point")
_TENSORS: Final = ("Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor")
_TYPE: Final = re.compile(r'"_type": "([A-Za-z0-9]{1,60})"')
_KINDS: Final = {torch.int8: "int8", torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8 (e5m2)"}


class Torchao(Packing):
    """torchao's Int8Tensor, IntxUnpackedToInt8Tensor and Float8Tensor."""

    method = "torchao"

    @property
    def rounds_activations(self) -> bool:
        return "DynamicActivation" in str(self.declared.get("quant_type"))

    def part_of(self, name: str) -> tuple[str, str] | None:
        module, _, last = name.rpartition(".")
        parameter, _, part = last.removeprefix("_").partition("_")
        if last.startswith("_") and parameter:
            return f"{module}.{parameter}", part
        return name, "weight"

    def is_packed(self, places: Mapping[str, Place]) -> bool:
        return set(places) != {"weight"}

    def layout(self, parts: StoredParts) -> PackedLayout:
        if not any(f'"{tensor}"' in parts.note for tensor in _TENSORS) or not set(parts.places) <= {*_PARTS}:
            written = _TYPE.search(parts.note)
            kind_of_tensor = written[1] if written else "a tensor of unknown kind"
            raise parts.refusal(
                f"is stored as {kind_of_tensor}, which is laid out for one kernel",
                f"{', '.join(_TENSORS)} are unpacked; quantise the model in one of them.",
            )
        parts.require({"qdata": 2, "scale": 2})
        kind = parts.places["qdata"].dtype
        if kind not in _KINDS:
            raise parts.refusal(f"is stored in {kind}", MISMATCH)
        shape, scales = parts.shape("qdata"), parts.shape("scale")
        if any(size % count for size, count in zip(shape, scales)):
            parts.require_shape("scale", (shape[0], 1), f"a weight of {shape[0]}×{shape[1]}")
        if "zero_point" in parts.places:
            parts.require_shape("zero_point", scales, "its scale")
        block = (shape[0] // scales[0], shape[1] // scales[1])
        words = "per tensor" if block == shape else "per channel" if block == (1, shape[1]) else _blocked(block)
        return PackedLayout(shape, f"{_KINDS[kind]}, {words}", 8, block)

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        numbers = parts["qdata"].float()
        if "zero_point" in parts:
            numbers = numbers - spread(parts["zero_point"].float(), layout.shape, layout.block)
        return numbers * spread(parts["scale"].float(), layout.shape, layout.block)


def _blocked(block: tuple[int, int]) -> str:
    return f"group {block[1]}" if block[0] == 1 else f"block {block[0]}×{block[1]}"

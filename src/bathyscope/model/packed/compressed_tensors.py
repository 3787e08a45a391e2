"""compressed-tensors: whole numbers or floats of few bits, with a scale for each group, channel, block or tensor.

The layouts are those of compressed-tensors 0.20: ``pack-quantized`` (whole numbers of 1 to 8 bits in words of 32),
``int-quantized``, ``float-quantized`` and ``naive-quantized`` (eight bits each), ``nvfp4-pack-quantized`` and
``mxfp4-pack-quantized`` (floats of four bits). Whole numbers are stored with half of their range added.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from bathyscope.model.packed.bits import as_scale, spread, unpack_fp4, unpack_words, words_for
from bathyscope.model.packed.packing import (
    MISMATCH,
    NOT_WHOLE,
    PackedLayout,
    Packing,
    StoredParts,
    as_block,
    in_groups,
    require_groups,
    split_name,
)
from bathyscope.model.streaming.files import Place

_FORMATS: Final = (
    *("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized"),
    *("mxfp4-pack-quantized", "mixed-precision", "dense"),
)
_PARTS: Final = tuple(
    f"weight{part}" for part in ("", "_packed", "_scale", "_zero_point", "_shape", "_g_idx", "_global_scale")
)
_UNUSED: Final = tuple(
    f".{what}_{part}" for what in ("input", "output", "k", "v", "q") for part in ("scale", "zero_point", "global_scale")
)
"""Of activations and caches, which unpacked weights do not round."""
_BYTES: Final = {torch.int8: "int8", torch.float8_e4m3fn: "fp8"}


class CompressedTensors(Packing):
    """compressed-tensors, as llm-compressor and vLLM write it."""

    method = "compressed-tensors"

    @property
    def _schemes(self) -> list[Mapping[str, Any]]:
        groups = self.declared.get("config_groups")
        listed = groups.values() if isinstance(groups, Mapping) else ()
        return [scheme for scheme in listed if isinstance(scheme, Mapping)]

    def _declared_of_weights(self, entry: str) -> list[Any]:
        """Return what the groups of the configuration say of their weights."""
        weights = [scheme.get("weights") for scheme in self._schemes]
        return [of_group.get(entry) for of_group in weights if isinstance(of_group, Mapping)]

    @property
    def unsupported(self) -> str | None:
        formats = [self.declared.get("format"), *(scheme.get("format") for scheme in self._schemes)]
        other = next((str(name) for name in formats if name is not None and name not in _FORMATS), None)
        if other is not None:
            return f"its format is {other}, and {', '.join(_FORMATS[:-2])} are unpacked"
        sparsity = self.declared.get("sparsity_config")
        if isinstance(sparsity, Mapping) and sparsity.get("format", "dense") != "dense":
            return f"its zeros are left out ({sparsity['format']}), and only dense weights are unpacked"
        if self.declared.get("transform_config"):
            return "its activations are rotated while it runs (transform_config), which no plain model does"
        return None

    @property
    def rounds_activations(self) -> bool:
        return any(scheme.get("input_activations") for scheme in self._schemes)

    def part_of(self, name: str) -> tuple[str, str] | None:
        if name.endswith(_UNUSED):
            return None
        return split_name(name, _PARTS) or (name, "weight")

    def is_packed(self, places: Mapping[str, Place]) -> bool:
        return set(places) != {"weight"} or places["weight"].dtype in _BYTES

    def layout(self, parts: StoredParts) -> PackedLayout:
        if "weight_packed" not in parts.places:
            return self._layout_of_bytes(parts)
        if parts.places["weight_packed"].dtype is torch.uint8:
            return _layout_of_fp4(parts)
        parts.require({"weight_packed": 2, "weight_scale": 2, "weight_shape": 1})
        parts.require_whole("weight_packed", "weight_shape", "weight_zero_point", "weight_g_idx")
        parts.require_shape("weight_shape", (2,), "a matrix")
        self._require_zeros(parts)
        outputs, words = parts.shape("weight_packed")
        shape = (outputs, int(parts.read("weight_shape")[-1]))
        widths = [bits for bits in self._declared_of_weights("num_bits") if isinstance(bits, int) and 0 < bits <= 8]
        bits = next((bits for bits in widths if words_for(shape[1], bits) == words), None)
        if bits is None:
            declared = " or ".join(map(str, sorted(set(widths)))) or "no"
            raise parts.refusal(
                f"packs {shape[1]} inputs in {words} words, and the configuration declares {declared} bits", MISMATCH
            )
        block, kind = self._block(parts, shape)
        if "weight_zero_point" in parts.places:
            expected = (words_for(outputs, bits), parts.shape("weight_scale")[1])
            parts.require_shape("weight_zero_point", expected, f"{bits} bits for {outputs} outputs")
        return PackedLayout(shape, f"int{bits}, {kind}", bits, block)

    def _layout_of_bytes(self, parts: StoredParts) -> PackedLayout:
        parts.require({"weight": 2, "weight_scale": len(parts.shape("weight_scale")) if self._has_scale(parts) else 0})
        name = _BYTES.get(parts.places["weight"].dtype or torch.bool)
        if name is None:
            raise parts.refusal(f"is stored in {parts.places['weight'].dtype} with a scale", MISMATCH)
        block, kind = self._block(parts, parts.shape("weight"))
        self._require_zeros(parts)
        if "weight_zero_point" in parts.places:
            parts.require_whole("weight_zero_point")
            parts.require_shape("weight_zero_point", parts.shape("weight_scale"), "its scale")
        return PackedLayout(parts.shape("weight"), f"{name}, {kind}", 8, block)

    def _require_zeros(self, parts: StoredParts) -> None:
        """Refuse a weight without zeros where every group declares that its numbers are not symmetric around 0."""
        declared = self._declared_of_weights("symmetric")
        if "weight_zero_point" not in parts.places and declared and all(entry is False for entry in declared):
            raise parts.refusal("lacks its weight_zero_point, and its numbers are not symmetric", NOT_WHOLE)

    @staticmethod
    def _has_scale(parts: StoredParts) -> bool:
        return "weight_scale" in parts.places

    def _block(self, parts: StoredParts, shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
        """Return how many numbers share a scale by axis, from the shape of the scales, and the same in words."""
        scales = parts.shape("weight_scale")
        if all(size == 1 for size in scales) and shape[0] > 1:
            return shape, "per tensor"
        if scales in ((shape[0],), (shape[0], 1)):
            sizes = self._declared_of_weights("group_size")
            if not any(isinstance(size, int) and 0 < size < shape[1] for size in sizes) or None in sizes:
                return (1, shape[1]), in_groups(-1)
        for size in self._declared_of_weights("group_size"):
            if isinstance(size, int) and size > 0 and scales == (shape[0], -(-shape[1] // size)):
                return (1, size), in_groups(size)
        for block in map(as_block, self._declared_of_weights("block_structure")):
            if block is not None and scales == tuple(-(-size // length) for size, length in zip(shape, block)):
                return block, f"block {block[0]}×{block[1]}"
        declared = sorted({str(size) for size in self._declared_of_weights("group_size") if size})
        groups = f"groups of {' or '.join(declared)}" if declared else "no groups"
        has = "×".join(map(str, scales))
        raise parts.refusal(
            f"({shape[0]}×{shape[1]}) has {has} scales, and the configuration declares {groups}", MISMATCH
        )

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        scales = as_scale(parts["weight_scale"])
        if "weight_global_scale" in parts:
            scales = scales / parts["weight_global_scale"].float()
        if "weight_packed" in parts and parts["weight_packed"].dtype == torch.uint8:
            return unpack_fp4(parts["weight_packed"]) * spread(scales, layout.shape, layout.block)
        numbers, zeros = _numbers(parts, layout)
        if scales.ndim < 2:
            # one for each row, or one for all
            scales = scales.reshape(-1, 1)
            zeros = None if zeros is None else zeros.reshape(-1, 1)
        # by input where inputs were sorted before they were grouped; −1 = they were not
        if "weight_g_idx" in parts and int(parts["weight_g_idx"].max()) >= 0:
            groups_I = require_groups(parts["weight_g_idx"], scales.shape[1])
            scales, zeros = scales[:, groups_I], None if zeros is None else zeros[:, groups_I]
        elif scales.numel() > 1:
            scales = spread(scales, layout.shape, layout.block)
            zeros = None if zeros is None else spread(zeros, layout.shape, layout.block)
        return (numbers if zeros is None else numbers - zeros) * scales


def _layout_of_fp4(parts: StoredParts) -> PackedLayout:
    parts.require({"weight_packed": 2, "weight_scale": 2})
    rows, half = parts.shape("weight_packed")
    shape = (rows, 2 * half)
    size = 16 if "weight_global_scale" in parts.places else 32
    parts.require_shape("weight_scale", (rows, -(-shape[1] // size)), f"groups of {size}")
    return PackedLayout(shape, f"{'nvfp4' if size == 16 else 'mxfp4'}, group {size}", 4, (1, size))


def _numbers(parts: Mapping[str, Tensor], layout: PackedLayout) -> tuple[Tensor, Tensor | None]:
    """Return the stored numbers in float32, and the zeros as they are stored, by scale."""
    zeros = parts.get("weight_zero_point")
    if "weight_packed" not in parts:
        return parts["weight"].float(), None if zeros is None else zeros.float()
    outputs, inputs = layout.shape
    half = 1 << (layout.bits - 1)
    numbers = unpack_words(parts["weight_packed"], layout.bits, inputs) - half
    if zeros is None:
        return numbers.float(), None
    return numbers.float(), (unpack_words(zeros.T.contiguous(), layout.bits, outputs).T - half).float()

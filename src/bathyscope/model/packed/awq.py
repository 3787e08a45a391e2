"""AWQ: whole numbers of four bits, interleaved for its kernels, with a scale and a zero for each group of inputs.

The layout is that of AutoAWQ 0.2 (GEMM): ``qweight`` [inputs, outputs / 8] packs eight outputs into a word in the order
0, 2, 4, 6, 1, 3, 5, 7; ``qzeros`` [groups, outputs / 8] likewise; ``scales`` is [groups, outputs].
"""

from collections.abc import Mapping
from typing import Final

from torch import Tensor

from bathyscope.model.packed.bits import spread, unpack_words, words_for
from bathyscope.model.packed.packing import PackedLayout, Packing, StoredParts, in_groups, split_name

_PARTS = ("qweight", "qzeros", "scales")
_BITS: Final = 4
_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight outputs the places of a word hold, from the lowest bits."""


class Awq(Packing):
    """AWQ, as AutoAWQ writes it for its GEMM kernels."""

    method = "awq"

    @property
    def unsupported(self) -> str | None:
        version = str(self.declared.get("version") or self.declared.get("format") or "gemm").lower()
        if version != "gemm":
            return f"its version is {version}, and gemm is unpacked"
        bits = self.declared.get("w_bit", self.declared.get("bits", _BITS))
        return None if bits == _BITS else f"it has {bits!r} bits, and {_BITS} are unpacked"

    def part_of(self, name: str) -> tuple[str, str] | None:
        return split_name(name, _PARTS) or (name, "weight")

    def layout(self, parts: StoredParts) -> PackedLayout:
        parts.require({"qweight": 2, "qzeros": 2, "scales": 2})
        parts.require_whole("qweight", "qzeros")
        inputs, words = parts.shape("qweight")
        outputs = parts.shape("scales")[1]
        size = self.number("q_group_size" if "q_group_size" in self.declared else "group_size", 128)
        groups = 1 if size < 0 else -(-inputs // size)
        declared = "one group" if size < 0 else f"a group_size of {size}"
        parts.require_shape("scales", (groups, outputs), f"{declared} for {inputs} inputs")
        parts.require_shape("qweight", (inputs, words_for(outputs, _BITS)), f"{_BITS} bits for {outputs} outputs")
        parts.require_shape("qzeros", (groups, words), f"{groups} groups of {outputs} outputs")
        return PackedLayout(
            (outputs, inputs), f"{_BITS}-bit, {in_groups(size)}", _BITS, (1, inputs if size < 0 else size)
        )

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        outputs, inputs = layout.shape
        shape, block = (inputs, outputs), layout.block[::-1]
        zeros_IO = spread(_in_order(parts["qzeros"], outputs), shape, block)
        scales_IO = spread(parts["scales"].float(), shape, block)
        return ((_in_order(parts["qweight"], outputs) - zeros_IO).float() * scales_IO).T.contiguous()


def _in_order(words_RW: Tensor, outputs: int) -> Tensor:
    """Return [rows, outputs], with the outputs in the order that the model has them in."""
    places = [_ORDER.index(output) for output in range(len(_ORDER))]
    return unpack_words(words_RW, _BITS, outputs).unflatten(1, (-1, len(_ORDER)))[:, :, places].flatten(1)

"""GPTQ: whole numbers of 2, 3, 4 or 8 bits, with a scale and a zero for each group of inputs.

The layout is that of AutoGPTQ 0.7 and GPTQModel 5: ``qweight`` [inputs · bits / 32, outputs] packs along the inputs,
``qzeros`` [groups, outputs · bits / 32] along the outputs, ``scales`` is [groups, outputs], and ``g_idx`` [inputs] says
which group an input is in (in any order, where ``desc_act`` sorted them). Files of the first version store every zero
less one; whole words were counted down, so that a zero of 0 borrows from its neighbour.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from bathyscope.model.packed.bits import unpack_words, words_for
from bathyscope.model.packed.packing import (
    NOT_WHOLE,
    PackedLayout,
    Packing,
    StoredParts,
    in_groups,
    require_groups,
    split_name,
)

_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_BITS = (2, 3, 4, 8)
_VERSIONS = ("gptq", "gptq_v2")


class Gptq(Packing):
    """GPTQ, as AutoGPTQ and GPTQModel write it."""

    method = "gptq"

    @property
    def _version(self) -> str:
        return str(self.declared.get("checkpoint_format") or self.declared.get("format") or _VERSIONS[0]).lower()

    @property
    def _is_mixed(self) -> bool:
        """Whether modules have numbers of their own, which their shapes tell."""
        return bool(self.declared.get("dynamic"))

    @property
    def unsupported(self) -> str | None:
        if self._version not in _VERSIONS:
            return f"its format is {self._version}, and {' and '.join(_VERSIONS)} are unpacked"
        if not self._is_mixed and self.number("bits", 4) not in _BITS:
            return f"it has {self.number('bits', 4)} bits, and {', '.join(map(str, _BITS))} are unpacked"
        return None

    def part_of(self, name: str) -> tuple[str, str] | None:
        return split_name(name, _PARTS) or (name, "weight")

    def layout(self, parts: StoredParts) -> PackedLayout:
        parts.require({"qweight": 2, "qzeros": 2, "scales": 2})
        if parts.places["qweight"].dtype is not torch.int32:
            raise parts.refusal("is packed in other words than int32", "Pack it again with pack_dtype int32.")
        rows, outputs = parts.shape("qweight")
        parts.require_whole("qzeros", "g_idx")
        groups = parts.shape("scales")[0]
        bits = self.number("bits", 4)
        if "g_idx" in parts.places:
            parts.require({"g_idx": 1})
            inputs = parts.shape("g_idx")[0]
            bits = (
                next((width for width in _BITS if words_for(inputs, width) == rows), bits) if self._is_mixed else bits
            )
        else:
            inputs = rows * 32 // bits
            if self.declared.get("desc_act") is True and groups > 1:
                raise parts.refusal("lacks the order of its inputs (g_idx), which were sorted (desc_act)", NOT_WHOLE)
        parts.require_shape("qweight", (words_for(inputs, bits), outputs), f"{bits} bits for {inputs} inputs")
        size = -(-inputs // groups) if self._is_mixed else self.number("group_size", -1)
        declared = "one group" if size < 0 else f"a group_size of {size}"
        expected = 1 if size < 0 else -(-inputs // size)
        parts.require_shape("scales", (expected, outputs), f"{declared} for {inputs} inputs")
        parts.require_shape("qzeros", (groups, words_for(outputs, bits)), f"{bits} bits for {outputs} outputs")
        if size >= inputs:
            size = -1
        return PackedLayout(
            (outputs, inputs), f"{bits}-bit, {in_groups(size)}", bits, (1, inputs if size < 0 else size)
        )

    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        outputs, inputs = layout.shape
        groups_I = (
            require_groups(parts["g_idx"], len(parts["scales"]))
            if "g_idx" in parts
            else torch.arange(inputs) // layout.block[1]
        )
        weight_OI = unpack_words(parts["qweight"].T.contiguous(), layout.bits, inputs)
        zeros_GO = self._zeros(parts["qzeros"], layout.bits, outputs)
        scales_OG = parts["scales"].float().T
        return (weight_OI - zeros_GO.T[:, groups_I]).float() * scales_OG[:, groups_I]

    def _zeros(self, words_GW: Tensor, bits: int, count: int) -> Tensor:
        if self._version == "gptq_v2":
            return unpack_words(words_GW, bits, count)
        if 32 % bits:
            # where numbers cross words, each was counted down by itself
            return (unpack_words(words_GW, bits, count) + 1) % (1 << bits)
        one_in_each = sum(1 << shift for shift in range(0, 32, bits))
        counted_up = (words_GW.long() + one_in_each) & 0xFFFFFFFF
        return unpack_words(counted_up, bits, count).int()

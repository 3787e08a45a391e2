"""Quantised checkpoints, packed number by number from the published layouts, and the weights that they stand for.

The layouts were read in AutoGPTQ 0.8, GPTQModel 5, AutoAWQ 0.2, compressed-tensors 0.20, bitsandbytes 0.50 and torchao
0.18. Words are made of Python's whole numbers, which know no words, so that nothing is shared with what unpacks them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from support import zoo
from torch import Tensor

CONV1D = ("gpt2",)
"""Families whose matrices are [inputs, outputs]."""
FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
NF4 = tuple(float(np.float32(value)) for value in np.tanh(np.linspace(-2, 2, 16)))
"""Any 16 numbers: a file brings its own."""


@dataclass
class Packed:
    """Parts of one weight, by what their names end in, the weight itself, and what the file's metadata say of it."""

    parts: dict[str, Tensor]
    weight: np.ndarray
    note: str = ""


Packer = Callable[[int, int, np.random.Generator], Packed]
"""Packs made-up numbers of [outputs, inputs]."""


@dataclass(frozen=True)
class Kind:
    """One way of packing.

    Args:
        pack: makes one weight.
        config: the ``quantization_config``.
        said: what a run says of the weights.
    """

    pack: Packer
    config: Mapping[str, Any]
    said: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A packed folder, and one of the plain weights that it stands for."""

    packed: Path
    plain: Path


def write(kind: Kind, place: Path, family: str = "llama") -> Checkpoint:
    """Writes both folders of a tiny model whose matrices inside the blocks are packed."""
    packed, plain = place / "packed", place / "plain"
    for folder in (packed, plain):
        zoo.build(family).save_pretrained(folder)
    generator = np.random.default_rng(0)
    stored, meant, notes = {}, {}, dict(kind.metadata)
    for name, value in load_file(plain / "model.safetensors").items():
        if not is_matrix(name, value):
            stored[name] = meant[name] = value
            continue
        outputs, inputs = value.shape[::-1] if family in CONV1D else value.shape
        made = kind.pack(outputs, inputs, generator)
        module = name.removesuffix(".weight")
        stored |= {f"{module}.{part}": tensor.contiguous() for part, tensor in made.parts.items()}
        weight = torch.tensor(made.weight.astype(np.float32))
        meant[name] = (weight.T if family in CONV1D else weight).contiguous()
        if made.note:
            notes[name] = made.note
    save_file(stored, packed / "model.safetensors", {"format": "pt", **notes})
    save_file(meant, plain / "model.safetensors", {"format": "pt"})
    declare(packed, quantization_config=kind.config)
    return Checkpoint(packed, plain)


def is_matrix(name: str, value: Tensor) -> bool:
    """Whether a tensor is packed: a matrix inside the blocks, and no router."""
    inside = any(f".{number}." in name for number in range(9)) and name.endswith(".weight")
    return inside and value.ndim == 2 and not any(size % 32 for size in value.shape) and "gate.weight" not in name


def declare(folder: Path, **entries: Any) -> None:
    """Writes entries into a configuration."""
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Changes the tensors of a folder."""
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})


def words(codes_RN: np.ndarray, bits: int) -> Tensor:
    """Whole numbers one behind another in words of 32 bits, from the lowest bit on: [rows, words]."""
    rows = []
    for row in codes_RN:
        whole = sum(int(code) << (bits * place) for place, code in enumerate(row))
        count = -(-len(row) * bits // 32)
        rows.append(np.frombuffer(whole.to_bytes(4 * count, "little"), "<i4"))
    return torch.tensor(np.stack(rows))


def drawn(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Scales of the usual size, which float16 holds."""
    return generator.uniform(0.002, 0.01, shape).astype(np.float16).astype(np.float64)


def gptq(bits: int = 4, group: int = 32, *, second: bool = False, sort: bool = False, zero: int | None = None) -> Kind:
    """GPTQ; ``zero`` = that of every weight, otherwise made up."""

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        size = inputs if group < 0 else group
        groups = inputs // size
        of_input = np.arange(inputs) // size
        if sort:
            of_input = generator.permutation(of_input)
        codes = generator.integers(0, 1 << bits, (outputs, inputs))
        zeros = (
            generator.integers(1, 1 << bits, (groups, outputs)) if zero is None else np.full((groups, outputs), zero)
        )
        scales = drawn(generator, groups, outputs)
        if second:
            stored_zeros = words(zeros, bits)
        elif 32 % bits:
            stored_zeros = words((zeros - 1) % (1 << bits), bits)
        else:
            # the word as a whole is counted down, and may borrow
            ones = sum(1 << shift for shift in range(0, 32, bits))
            stored_zeros = ((words(zeros, bits).long() - ones) & 0xFFFFFFFF).int()
        parts = {
            "qweight": words(codes, bits).T,
            "qzeros": stored_zeros,
            "scales": torch.tensor(scales).half(),
            "g_idx": torch.tensor(of_input).int(),
        }
        return Packed(parts, (codes - zeros.T[:, of_input]) * scales.T[:, of_input])

    version = {"checkpoint_format": "gptq_v2"} if second else {}
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": sort, "sym": False, **version}
    return Kind(pack, config, f"gptq {bits}-bit, {in_groups(group)}")


def in_groups(group: int) -> str:
    return "per channel" if group < 0 else f"group {group}"


def awq(group: int = 32) -> Kind:
    """AWQ for GEMM kernels."""

    def interleaved(codes: np.ndarray) -> Tensor:
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        rows, outputs = codes.shape
        return words(codes.reshape(rows, outputs // 8, 8)[:, :, order].reshape(rows, outputs), 4)

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        codes = generator.integers(0, 16, (inputs, outputs))
        zeros = generator.integers(0, 16, (inputs // group, outputs))
        scales = drawn(generator, inputs // group, outputs)
        of_input = np.arange(inputs) // group
        parts = {"qweight": interleaved(codes), "qzeros": interleaved(zeros), "scales": torch.tensor(scales).half()}
        return Packed(parts, ((codes - zeros[of_input]) * scales[of_input]).T)

    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    return Kind(pack, config, f"awq 4-bit, group {group}")


def compressed(
    form: str = "pack-quantized",
    bits: int = 4,
    group: int | None = 32,
    *,
    zeros: bool = False,
    sort: bool = False,
    whole: bool = False,
    activations: bool = False,
) -> Kind:
    """compressed-tensors in whole numbers; ``whole`` = one scale for a tensor, no group = one for each channel."""
    half = 1 << (bits - 1)

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        size = group or inputs
        rows, groups = (1, 1) if whole else (outputs, inputs // size)
        of_input = np.zeros(inputs, int) if whole else np.arange(inputs) // size
        if sort:
            of_input = generator.permutation(of_input)
        codes = generator.integers(-half, half, (outputs, inputs))
        zero = generator.integers(-half, half, (rows, groups)) if zeros else np.zeros((rows, groups), int)
        scales = drawn(generator, rows, groups)
        weight = (codes - zero[:, of_input]) * scales[:, of_input]
        scale = torch.tensor(scales).float()
        parts = {"weight_scale": scale.reshape(1) if whole else scale}
        if form == "pack-quantized":
            parts |= {"weight_packed": words(codes + half, bits), "weight_shape": torch.tensor([outputs, inputs])}
            if zeros:
                parts["weight_zero_point"] = words((zero + half).T, bits).T
        else:
            parts["weight"] = torch.tensor(codes).to(torch.int8)
            if zeros:
                parts["weight_zero_point"] = torch.tensor(zero).to(torch.int8).reshape(parts["weight_scale"].shape)
        if sort:
            parts["weight_g_idx"] = torch.tensor(of_input).int()
        return Packed(parts, weight)

    strategy = "tensor" if whole else "group" if group else "channel"
    kind = "per tensor" if whole else f"group {group}" if group else "per channel"
    rounded = " (activations are not rounded)" if activations else ""
    weights = {"num_bits": bits, "type": "int", "strategy": strategy, "group_size": group, "symmetric": not zeros}
    return Kind(pack, scheme(form, weights, activations), f"compressed-tensors int{bits}, {kind}{rounded}")


def scheme(form: str, weights: dict[str, Any], activations: bool = False) -> dict[str, Any]:
    """The configuration of compressed-tensors with one group."""
    inputs = {"num_bits": 8, "dynamic": True} if activations else None
    of_group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": of_group}, "ignore": []}


def float8(blocks: tuple[int, int] | None, method: str = "compressed-tensors") -> Kind:
    """FP8 with a scale for each block (None = for each tensor), by either method that has it."""

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        rows, columns = blocks or (outputs, inputs)
        stored = torch.tensor(generator.normal(0, 40, (outputs, inputs))).to(torch.float8_e4m3fn)
        scales = drawn(generator, -(-outputs // rows), -(-inputs // columns)) / 16
        spread = scales.repeat(rows, 0)[:outputs].repeat(columns, 1)[:, :inputs]
        name = "weight_scale" if method == "compressed-tensors" else "weight_scale_inv"
        scale = torch.tensor(scales).float()
        parts = {"weight": stored, name: scale if blocks else scale.reshape(1)}
        return Packed(parts, stored.double().numpy() * np.float32(spread).astype(np.float64))

    words_of = "per tensor" if blocks is None else f"block {blocks[0]}×{blocks[1]}"
    if method == "fp8":
        config: dict[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
        return Kind(pack, config | {"weight_block_size": blocks}, f"fp8 {words_of} (activations are not rounded)")
    strategy = "block" if blocks else "tensor"
    weights = {"num_bits": 8, "type": "float", "strategy": strategy, "group_size": None, "block_structure": blocks}
    return Kind(pack, scheme("float-quantized", weights), f"compressed-tensors fp8, {words_of}")


def float4(size: int) -> Kind:
    """compressed-tensors in floats of four bits: nvfp4 in groups of 16, mxfp4 in groups of 32."""

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        codes = generator.integers(0, 16, (outputs, inputs))
        exponents = generator.integers(118, 122, (outputs, inputs // size))
        parts: dict[str, Tensor] = {"weight_packed": torch.tensor(codes[:, ::2] + 16 * codes[:, 1::2]).to(torch.uint8)}
        if size == 16:
            eighths = torch.tensor(2.0 ** (exponents - 121)).to(torch.float8_e4m3fn)
            parts |= {"weight_scale": eighths, "weight_global_scale": torch.tensor([64.0])}
            scales = eighths.double().numpy() / 64
        else:
            parts["weight_scale"] = torch.tensor(exponents).to(torch.uint8)
            scales = 2.0 ** (exponents - 127)
        return Packed(parts, np.array(FP4)[codes] * scales.repeat(size, 1))

    name = "nvfp4" if size == 16 else "mxfp4"
    weights = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": size}
    return Kind(pack, scheme(f"{name}-pack-quantized", weights), f"compressed-tensors {name}, group {size}")


def bits8() -> Kind:
    """bitsandbytes in eight bits."""

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        codes = generator.integers(-127, 128, (outputs, inputs))
        largest = generator.uniform(0.2, 0.9, outputs).astype(np.float32)
        # by the row's largest magnitude, and then by 1 / 127, each time to the nearest number
        weight = (codes.astype(np.float32) * largest[:, None]) * np.float32(7.874015718698502e-3)
        parts = {"weight": torch.tensor(codes).to(torch.int8), "SCB": torch.tensor(largest)}
        return Packed(parts | {"weight_format": torch.tensor(0, dtype=torch.uint8)}, weight)

    said = "bitsandbytes 8-bit, per channel (activations are not rounded)"
    return Kind(pack, {"quant_method": "bitsandbytes", "load_in_8bit": True}, said)


def bits4(kind: str = "nf4", *, double: bool = False, storage: torch.dtype = torch.uint8) -> Kind:
    """bitsandbytes in four bits; blocks of 64 numbers run on from row to row."""

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        count = outputs * inputs
        codes = generator.integers(0, 16, count)
        table = np.array(NF4 if kind == "nf4" else FP4, np.float32)
        state: dict[str, Any] = {"quant_type": kind, "blocksize": 64, "dtype": "float32", "shape": [outputs, inputs]}
        packed = torch.tensor(16 * codes[::2] + codes[1::2]).to(torch.uint8)
        parts = {"weight": packed.view(storage)[:, None], "weight.quant_map": torch.tensor(table)}
        if double:
            inner = np.sort(generator.uniform(-1, 1, 256)).astype(np.float32)
            places = generator.integers(0, 256, count // 64)
            scales = generator.uniform(0.01, 0.05, -(-len(places) // 256)).astype(np.float32)
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.125}
            largest = inner[places] * scales.repeat(256)[: len(places)] + np.float32(0.125)
            parts |= {
                "weight.absmax": torch.tensor(places).to(torch.uint8),
                "weight.nested_absmax": torch.tensor(scales),
                "weight.nested_quant_map": torch.tensor(inner),
            }
        else:
            largest = generator.uniform(0.05, 0.2, count // 64).astype(np.float32)
            parts["weight.absmax"] = torch.tensor(largest)
        text = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
        parts[f"weight.quant_state.bitsandbytes__{kind}"] = text
        return Packed(parts, (table[codes] * largest.repeat(64)).reshape(outputs, inputs))

    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}
    return Kind(pack, config, f"bitsandbytes {kind}, block 64{', double quantisation' if double else ''}")


def torchao(group: int | None = None, kind: str = "Int8Tensor") -> Kind:
    """torchao in eight bits, whole numbers with zeros or floats; no group = one scale for each channel."""

    def pack(outputs: int, inputs: int, generator: np.random.Generator) -> Packed:
        size = group or inputs
        scales = drawn(generator, outputs, inputs // size)
        parts = {"_weight_scale": torch.tensor(scales).float()}
        if kind == "Float8Tensor":
            stored = torch.tensor(generator.normal(0, 4, (outputs, inputs))).to(torch.float8_e4m3fn)
            numbers = stored.double().numpy()
        else:
            zeros = generator.integers(-8, 8, scales.shape)
            stored = torch.tensor(generator.integers(-8, 8, (outputs, inputs))).to(torch.int8)
            numbers = stored.double().numpy() - zeros.repeat(size, 1)
            parts["_weight_zero_point"] = torch.tensor(zeros).to(torch.int8)
        note = json.dumps({"_type": kind, "_data": {"block_size": [1, size]}, "_tensor_data_names": ["qdata", "scale"]})
        return Packed(parts | {"_weight_qdata": stored}, numbers * scales.repeat(size, 1), note)

    name = "fp8" if kind == "Float8Tensor" else "int8"
    config = {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}
    return Kind(pack, config, f"torchao {name}, {in_groups(group or -1)}")


KINDS: dict[str, Kind] = {
    **{f"gptq-{bits}": gptq(bits) for bits in (2, 3, 4, 8)},
    "gptq-sorted": gptq(sort=True),
    "gptq-channel": gptq(group=-1),
    "gptq-second": gptq(second=True),
    "gptq-zero": gptq(zero=0),
    "awq": awq(),
    "int4-group": compressed(),
    "int4-zeros": compressed(zeros=True),
    "int4-sorted": compressed(sort=True),
    "int3-group": compressed(bits=3),
    "int8-packed": compressed(bits=8, group=None, zeros=True),
    "int8-channel": compressed("int-quantized", 8, None, activations=True),
    "int8-tensor": compressed("int-quantized", 8, None, zeros=True, whole=True),
    "float8-tensor": float8(None),
    "float8-block": float8((48, 40)),
    "nvfp4": float4(16),
    "mxfp4": float4(32),
    "bits-8": bits8(),
    "nf4": bits4(),
    "nf4-double": bits4(double=True),
    "nf4-bfloat16": bits4(storage=torch.bfloat16),
    "fp4": bits4("fp4"),
    "torchao-channel": torchao(),
    "torchao-group": torchao(32, "IntxUnpackedToInt8Tensor"),
    "torchao-fp8": torchao(None, "Float8Tensor"),
    "fp8": float8((32, 32), "fp8"),
}
"""Every way of packing that is unpacked, by a short name."""

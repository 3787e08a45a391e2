"""Safetensors files, read and written one tensor at a time, in pieces, whatever their size."""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bathyscope.core.foreign import open_regular
from bathyscope.core.strict import DAMAGED
from bathyscope.errors import ModelError
from bathyscope.model.files import INDEX, SINGLE, remedy

PIECE_BYTES = 1 << 24
SHARD_BYTES = 5 * 10**9
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
_ALIGNMENT = 64


@dataclass(frozen=True)
class TensorInFile:
    """A tensor in a file: its kind, its shape, and where its bytes lie."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int

    def pieces(self) -> Iterator[bytes]:
        """Return its bytes, in their order."""
        with open_regular(self.file, self.file.parent) as stream:
            stream.seek(self.start)
            left = self.end - self.start
            while left:
                piece = stream.read(min(left, PIECE_BYTES))
                if not piece:
                    raise ModelError(f"{self.file} ends before its tensors do. {remedy(self.file.parent)}")
                left -= len(piece)
                yield piece


@dataclass(frozen=True)
class Written:
    """A tensor to be written; ``pieces`` gives its bytes when its turn comes."""

    name: str
    kind: str
    shape: tuple[int, ...]
    size: int
    pieces: Callable[[], Iterable[Any]]


def stored_in(file: Path) -> dict[str, TensorInFile]:
    """Return the tensors of a safetensors file, by name; nothing of them is read."""
    try:
        with open_regular(file, file.parent) as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header: dict[str, Any] = json.loads(stream.read(min(length, os.fstat(stream.fileno()).st_size)))
        begin = 8 + length
        return {
            name: TensorInFile(
                file, entry["dtype"], tuple(entry["shape"]), *(begin + offset for offset in entry["data_offsets"])
            )
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (*DAMAGED, struct.error) as error:
        raise ModelError(
            f"{file} is no safetensors file that can be copied ({type(error).__name__}: {error}). Save the model again."
        ) from error


def write_shards(folder: Path, tensors: Sequence[Written], shard_bytes: int = SHARD_BYTES) -> list[Path]:
    """Write tensors in their order to as many files as they need, with an index where it is more than one.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    shards: list[list[Written]] = [[]]
    for tensor in tensors:
        if shards[-1] and sum(other.size for other in shards[-1]) + tensor.size > shard_bytes:
            shards.append([])
        shards[-1].append(tensor)
    many = len(shards) > 1
    files = [
        folder / (f"model-{number:05d}-of-{len(shards):05d}.safetensors" if many else SINGLE)
        for number in range(1, len(shards) + 1)
    ]
    for file, shard in zip(files, shards):
        _write(file, shard)
    if many:
        total = {"total_size": sum(tensor.size for tensor in tensors)}
        places = {tensor.name: file.name for file, shard in zip(files, shards) for tensor in shard}
        index = folder / INDEX
        index.write_text(json.dumps({"metadata": total, "weight_map": places}, indent=2) + "\n", encoding="utf-8")
        files.append(index)
    return files


def _write(file: Path, tensors: Sequence[Written]) -> None:
    """Write one file, its tensors in their order."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    places: dict[str, int] = {}
    place = 0
    # Tensors of whole cache lines are first, so that most begin at one: the library uses them where they lie, and some
    # kernels round differently on numbers that are not aligned.
    for tensor in sorted(tensors, key=lambda tensor: tensor.size % _ALIGNMENT != 0):
        offsets = [place, place + tensor.size]
        header[tensor.name] = {"dtype": tensor.kind, "shape": list(tensor.shape), "data_offsets": offsets}
        places[tensor.name] = place
        place += tensor.size
    text = json.dumps(header, separators=(",", ":")).encode()
    # A header may end in blanks, which put the first tensor at the beginning of a cache line.
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        begin = stream.tell()
        for tensor in tensors:
            stream.seek(begin + places[tensor.name])
            written = sum(stream.write(piece) for piece in tensor.pieces())
            if written != tensor.size:
                raise AssertionError(f"{tensor.name}: {written} bytes written, {tensor.size} announced")
        stream.flush()
        # The folder gets its name when it is whole, which has to hold after a power cut too.
        os.fsync(stream.fileno())


def kind_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype in safetensors files.

    Raises:
        ModelError: they do not know it.
    """
    if dtype not in _NAMES:
        raise ModelError(f"Weights of {dtype} cannot be written to safetensors files; convert the model first.")
    return _NAMES[dtype]


def bytes_of(value: Tensor) -> Iterator[Any]:
    """Return a tensor's bytes in their order, in pieces."""
    # In pieces: a tensor on a device is brought to the host a few megabytes at a time.
    flat = value.detach().reshape(-1)
    for piece in flat.split(max(1, PIECE_BYTES // value.element_size())):
        yield piece.cpu().contiguous().view(torch.uint8).numpy().data


def grouped_bytes(stored: TensorInFile, axis: int, groups: int, order: Sequence[int]) -> Iterator[bytes]:
    """Return a stored tensor's bytes with groups of entries along one axis in another order."""
    outer = 1
    for size in stored.shape[:axis]:
        outer *= size
    group = (stored.end - stored.start) // outer // groups
    with open_regular(stored.file, stored.file.parent) as stream:
        stream.seek(stored.start)
        for _ in range(outer):
            entry = stream.read(group * groups)
            yield b"".join(entry[group_index * group : (group_index + 1) * group] for group_index in order)


def file_hashes(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of every file, by its name."""
    listed = sorted(files)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip((file.name for file in listed), pool.map(_hash, listed)))


def _hash(file: Path) -> str:
    with open_regular(file, file.parent) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

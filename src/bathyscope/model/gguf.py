"""GGUF files, looked at before they are loaded: what they hold, how it is stored, and whether all of it is there.

transformers reads the weights. Its own messages on damaged files are those of numpy, and come after half a minute; the
header is therefore read here first, which takes a fraction of a second.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from io import SEEK_CUR
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import BinaryIO, Final

from bathyscope.core.foreign import open_regular, require_regular
from bathyscope.core.text import elided
from bathyscope.errors import ModelError
from bathyscope.model.gguf_sizes import unstored_size

SUFFIX: Final = ".gguf"
_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING, _ARRAY = 8, 9
# struct formats of the container's number types, by their codes
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LONGEST_TEXT: Final = 1 << 26
_LONGEST_HEADER: Final = 1 << 28
"""Bytes that are read of a header, at most: ten times a vocabulary of half a million tokens with its merges."""
_F32: Final = 0
_SCALINGS: Final = ("rope.scaling.type", "rope.scaling.factor", "rope.scaling.attn_factor", "rope.scale_linear")
_UNSCALED: Final = ("none", "", 1.0)
_FACTORS: Final = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
_SCALED_ARCHITECTURES: Final = ("gpt-oss",)
"""Of whose files transformers reads how frequencies are scaled."""
_BLOCK: Final = re.compile(r"blk\.([0-9]{1,9})\.")
_MOST_TEXTS: Final = 10_000_000
_MOST_TENSORS: Final = 1_000_000
_MOST_AXES: Final = 8
_PLAIN: Final = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class GgufFile:
    """The content of a GGUF file's header.

    Args:
        path: the file.
        architecture: llama.cpp's name for the model's type.
        has_tokenizer: it holds a vocabulary.
        elements: number of weights by how they are stored (``Q4_1``, ``F32`` …).
        left_over: a sentence about blocks that the file holds and its header does not ask for; None = it has no others.
    """

    path: Path
    architecture: str
    has_tokenizer: bool
    elements: Mapping[str, int]
    left_over: str | None = None

    @property
    def quantisation(self) -> str:
        """Every storage type, the one with the most weights first, such as ``Q4_1, Q8_0, F32``."""
        return ", ".join(sorted(self.elements, key=lambda kind: (-self.elements[kind], kind)))

    @cached_property
    def sha256(self) -> str:
        """The hash of the whole file."""
        with open_regular(self.path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def identity(self) -> dict[str, str]:
        """Return what a run says of it: name, hash and quantisation; the folder is no part of it."""
        return {"file": self.path.name, "sha256": self.sha256, "quantisation": self.quantisation}


def is_gguf(name: str | Path) -> bool:
    """Whether a model's name is meant as a GGUF file's."""
    return str(name).lower().endswith(SUFFIX)


def gguf_name(folder: str, gguf_file: str) -> str:
    """Return the path of a GGUF file inside a checkpoint's folder.

    Raises:
        ModelError: no such folder (a name on the hub, for instance), or no plain name of such a file.
    """
    if not is_gguf(gguf_file) or Path(gguf_file).name != gguf_file:
        raise ModelError(f"gguf_file={gguf_file!r} is not the name of a .gguf file inside the folder; give its name.")
    place = Path(folder).expanduser()
    if place.is_file():
        raise ModelError(f"{folder} is a file already; leave gguf_file={gguf_file!r} out, or give the file's folder.")
    if not place.is_dir():
        raise ModelError(
            f"gguf_file={gguf_file!r} is for a local folder, and {folder} is none. Download the file "
            f"(hf download {folder} {gguf_file}) and give its path."
        )
    return str(place / gguf_file)


def open_gguf(name: str | Path) -> GgufFile:
    """Read the header of a GGUF file that is whole and that can be read with what is installed.

    Raises:
        ModelError: no such file, `gguf` is not installed, a damaged or truncated file, an unknown quantisation, or
            scaled rotary frequencies, which transformers does not read.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise ModelError(_absent(path))
    missing = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    if missing:
        raise ModelError(
            f"Reading {name} needs {' and '.join(missing)}, which is not installed; pip install 'bathyscope[gguf]'."
        )
    try:
        require_regular(path)
        with open_regular(path) as stream:
            return _read_header(path, stream)
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {error.strerror or error}.") from error


def _absent(path: Path) -> str:
    place = path.parent
    names = sorted(file.name for file in place.glob(f"*{SUFFIX}"))[:5] if place.is_dir() else []
    hint = f"{place} holds {', '.join(names)}." if names else "Give the path of a .gguf file, or a checkpoint folder."
    return f"There is no file {path}. {hint}"


class _Header:
    """Reads the little-endian values of a header; a value that the file ends in is a truncated file."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self._path, self._stream = path, stream
        self._size = path.stat().st_size
        self._read = 0

    def take(self, size: int) -> bytes:
        # a damaged number may ask for more bytes than there is memory
        if self._stream.tell() + size > self._size:
            raise ModelError(_truncated(self._path, "it ends within its header"))
        self._read += size
        if self._read > _LONGEST_HEADER:
            raise ModelError(f"{self._path} is damaged: its header has more than 256 MiB; download it again.")
        return self._stream.read(size)

    def skip(self, size: int) -> None:
        """Pass over values; a file with holes may say that they are larger than memory."""
        if self._stream.tell() + size > self._size:
            raise ModelError(_truncated(self._path, "it ends within its header"))
        self._stream.seek(size, SEEK_CUR)

    def count(self, most: int, what: str) -> int:
        """Read how many of something follow; more than any model has is damage, and would be read for hours."""
        count = self.number("Q")
        if count > most:
            raise ModelError(f"{self._path} is damaged: its header says {count:,} {what}; download it again.")
        return count

    def number(self, form: str) -> int:
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0])

    def text(self) -> str:
        length = self.number("Q")
        if length > _LONGEST_TEXT:
            raise ModelError(f"{self._path} is damaged: its header holds a text of {length} bytes; download it again.")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> str | int | float | None:
        """Read a text or a number; arrays are passed over."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner = self.number("I")
            if inner in _NUMBERS:
                self.skip(struct.calcsize(f"<{_NUMBERS[inner]}") * self.number("Q"))
            elif inner == _STRING:
                for _ in range(self.count(_MOST_TEXTS, "texts")):
                    self.text()
            else:
                raise ModelError(f"{self._path} is damaged: its header holds lists of type {inner}; download it again.")
            return None
        if kind not in _NUMBERS:
            raise ModelError(f"{self._path} is damaged: its header holds a value of type {kind}; download it again.")
        if _NUMBERS[kind] in "fd":
            return float(struct.unpack(f"<{_NUMBERS[kind]}", self.take(struct.calcsize(f"<{_NUMBERS[kind]}")))[0])
        return self.number(_NUMBERS[kind])


def _read_header(path: Path, stream: BinaryIO) -> GgufFile:
    if stream.read(4) != _MAGIC:
        raise ModelError(
            f"{path} is not a GGUF file (it does not begin with GGUF). Download it again, or give a checkpoint folder."
        )
    header = _Header(path, stream)
    version = header.number("I")
    if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
        raise ModelError(f"{path} is a big-endian GGUF file; only little-endian ones can be read. Convert it again.")
    if version not in _VERSIONS:
        raise ModelError(f"{path} is GGUF of version {version}; versions 2 and 3 can be read. Convert it again.")
    n_tensors, n_values = header.count(_MOST_TENSORS, "tensors"), header.count(_MOST_TENSORS, "values")
    values: dict[str, str | int | float | None] = {}
    for _ in range(n_values):
        key = header.text()
        values[key] = header.value(header.number("I"))
    kinds: list[tuple[str, int, int, int]] = []
    shapes: dict[str, list[int]] = {}
    for _ in range(n_tensors):
        tensor = header.text()
        shape = [header.number("Q") for _ in range(min(header.number("I"), _MOST_AXES))]
        shapes[tensor] = shape
        kinds.append((tensor, prod(shape), header.number("I"), header.number("Q")))
    # the format's own default; tensors begin at the next multiple behind the header
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= _LONGEST_TEXT:
        raise ModelError(f"{path} is damaged: its alignment is {alignment!r:.40}; download it again.")
    start = -(-stream.tell() // alignment) * alignment
    elements = _stored(path, kinds, start, path.stat().st_size)
    architecture = str(values.get("general.architecture", "unknown"))
    if larger := unstored_size(values, shapes):
        raise ModelError(f"{path} is damaged: its header {larger}; download it again.")
    if architecture not in _SCALED_ARCHITECTURES:
        _require_no_scaling(path, values)
        for tensor, count, code, offset in kinds:
            if tensor in _FACTORS and not _are_ones(stream, start + offset, count, code):
                raise ModelError(_scaled(path, tensor))
    return GgufFile(
        path,
        architecture,
        "tokenizer.ggml.tokens" in values,
        elements,
        _left_over(values.get(f"{architecture}.block_count"), [tensor for tensor, *_ in kinds]),
    )


def _require_no_scaling(path: Path, values: Mapping[str, str | int | float | None]) -> None:
    """Refuse rotary frequencies that are scaled, of which transformers reads nothing in these files."""
    for key, value in values.items():
        name = next((name for name in _SCALINGS if key.endswith(name)), None)
        if name is not None and value not in (*_UNSCALED, None):
            raise ModelError(_scaled(path, f"{key} = {value}"))


def _scaled(path: Path, what: str) -> str:
    return (
        f"{path} asks for scaled rotary frequencies ({what}), which transformers leaves out of GGUF files, so that "
        "it would be another model. Give the model's safetensors checkpoint."
    )


def _are_ones(stream: BinaryIO, place: int, count: int, code: int) -> bool:
    """Whether a tensor of factors changes nothing; one that is packed counts as one that does."""
    if code != _F32:
        return False
    stream.seek(place)
    return all(factor == 1.0 for factor in struct.unpack(f"<{count}f", stream.read(4 * count)))


def _left_over(block_count: str | int | float | None, tensors: Sequence[str]) -> str | None:
    """Say which blocks of the file its header leaves out; None where it asks for all."""
    numbers = [int(place[1]) for tensor in tensors if (place := _BLOCK.match(tensor))]
    if not isinstance(block_count, int) or not numbers or max(numbers) < block_count:
        return None
    return (
        f"The file holds {max(numbers) + 1} blocks, and its header asks for the first {block_count}; the others are "
        "left out. Was the header changed?"
    )


def _stored(path: Path, kinds: list[tuple[str, int, int, int]], start: int, size: int) -> dict[str, int]:
    """Count weights by storage type, and require that each can be read and is all there."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    elements: Counter[str] = Counter()
    places: list[tuple[int, int, str]] = []
    for tensor, count, code, offset in kinds:
        try:
            kind = GGMLQuantizationType(code)
        except ValueError as error:
            raise ModelError(_unknown(path, tensor, f"type {code}")) from error
        if kind.name not in elements:
            _require_readable(path, tensor, kind)
        elements[kind.name] += count
        # weights are packed in groups that share a scale, 32 or 256 of them in this many bytes
        per_group, group_bytes = GGML_QUANT_SIZES[kind]
        end = start + offset + count // per_group * group_bytes
        if end > size:
            raise ModelError(_truncated(path, f"{tensor} ends at byte {end} of {size}"))
        places.append((offset, end - start, tensor))
    places.sort()
    for (_, end, first), (begin, _, second) in pairwise(places):
        if begin < end:
            raise ModelError(
                f"{path} is damaged: its tensors {elided(first, 60)} and {elided(second, 60)} share bytes; download it "
                "again."
            )
    return dict(elements)


def _require_readable(path: Path, tensor: str, kind: object) -> None:
    """Try one group of zeros: which types `gguf` can unpack is known to its functions alone."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    assert isinstance(kind, GGMLQuantizationType)
    if kind.name in _PLAIN:
        return
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except (NotImplementedError, ValueError, KeyError) as error:
        raise ModelError(_unknown(path, tensor, kind.name)) from error


def _unknown(path: Path, tensor: str, kind: str) -> str:
    return (
        f"{path} stores {tensor} as {kind}, a quantisation that the installed gguf cannot unpack. Update gguf, or give "
        "the model in another quantisation."
    )


def _truncated(path: Path, reason: str) -> str:
    return f"{path} is truncated: {reason}. Download it again."

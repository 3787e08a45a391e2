"""Tensors in safetensors files, read into memory of one's own.

They are read and not mapped: the system kills a process that looks at mapped memory behind the end of a file that was
cut short, while a reading that ends too early is an error with a message. For the same reason each file is looked at
before and after it is read: a checkpoint that is replaced meanwhile must not become half of a model.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import torch
from torch import Tensor

from bathyscope.core.foreign import open_regular
from bathyscope.core.strict import DAMAGED
from bathyscope.core.text import elided
from bathyscope.errors import ModelError

_DTYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8},
    **{"U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "BOOL": torch.bool, "C64": torch.complex64},
    **{"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu},
    **{"F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz},
}
Stamp = tuple[int, int, int]
_MOST_HEADER = 100_000_000
"""Bytes of a header, at most, as the safetensors library has it."""


@dataclass(frozen=True)
class Place:
    """Where a tensor is in a file; ``dtype`` is None where torch has no numbers of its kind (below a byte each)."""

    start: int
    stop: int
    dtype: torch.dtype | None
    shape: tuple[int, ...]


class CheckpointFile:
    """One safetensors file, as it was when it was first looked at.

    Args:
        path: of the file.

    Raises:
        ModelError: no such file, or none that can be opened.
    """

    use: ClassVar[str] = "from which blocks are streamed,"
    """What the file is for, in messages."""
    since: ClassVar[str] = "the model was loaded"
    again: ClassVar[str] = "Put the checkpoint back as it was, or load the model again; finished shards are kept."

    def __init__(self, path: Path) -> None:
        # the process may change its working folder meanwhile
        self.path = path.absolute()
        with self._opened() as stream:
            self._stamp = _stamp(stream)

    @property
    def places(self) -> dict[str, Place]:
        """Where its tensors are, by name.

        Raises:
            ModelError: no header that can be read.
        """
        return self._header[0]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the program that wrote the file says of it, as texts by name.

        Raises:
            ModelError: no header that can be read.
        """
        return self._header[1]

    @cached_property
    def _header(self) -> tuple[dict[str, Place], Mapping[str, Any]]:
        with self.reading() as stream:
            try:
                length = int.from_bytes(stream.read(8), "little")
                if length > _MOST_HEADER:
                    raise ValueError(f"a header of {length:,} bytes, and at most {_MOST_HEADER:,} are read")
                header = json.loads(stream.read(length))
                metadata = header.pop("__metadata__", None)
                places = {name: _place(entry, 8 + length) for name, entry in header.items()}
            except DAMAGED as error:
                raise ModelError(
                    f"{self.path} is no safetensors file that can be streamed ({type(error).__name__}: "
                    f"{elided(error, 120)}). Restore the file, or download it again."
                ) from error
        self._require_sizes(places)
        return places, metadata if isinstance(metadata, Mapping) else {}

    def _require_sizes(self, places: Mapping[str, Place]) -> None:
        """Refuse tensors that have other bytes than their shapes, or share bytes: what is declared is allocated."""
        for name, place in places.items():
            # torch has the size of a number for all but those below a byte
            size = None if place.dtype is None else prod(place.shape) * place.dtype.itemsize
            if size not in (None, place.stop - place.start):
                raise ModelError(
                    f"{self.path} is damaged: its header gives {name} {place.stop - place.start:,} bytes, and "
                    f"{elided(list(place.shape), 60)} numbers take {size:,}. {self.again}"
                )
        in_order = sorted((place.start, place.stop, name) for name, place in places.items() if place.stop > place.start)
        for (_, stop, first), (start, _, second) in pairwise(in_order):
            if start < stop:
                raise ModelError(f"{self.path} is damaged: {first} and {second} share bytes. {self.again}")

    @contextmanager
    def reading(self) -> Iterator[BinaryIO]:
        """Open the file, which must be the one that it was, before and after.

        Raises:
            ModelError: it is missing, was cut short or changed.
        """
        with self._opened() as stream:
            self._require_same(_stamp(stream))
            yield stream
            self._require_same(_stamp(stream))

    def require_unchanged(self) -> None:
        """Refuse a file that is missing or has changed.

        Raises:
            ModelError: names the file.
        """
        with self.reading():
            pass

    def read(self, stream: BinaryIO, name: str, target: Tensor, first: int = 0) -> int:
        """Fill ``target`` with a tensor, converted to its dtype, and return the bytes that were read.

        Args:
            first: entry of the tensor's first axis that ``target`` begins with, where it holds some of them.

        Raises:
            ModelError: the file ends too early, cannot be read, or holds a tensor of a kind that torch lacks.
        """
        place = self.places[name]
        if place.dtype is None:
            raise ModelError(
                f"{self.path} keeps {name} in fewer bits than a byte, which cannot be streamed; load the model with "
                "placement='resident'."
            )
        stored = target if target.dtype == place.dtype else torch.empty(target.shape, dtype=place.dtype)
        begin = place.start + first * prod(place.shape[1:]) * place.dtype.itemsize
        room = memoryview(stored.view(-1).view(torch.uint8).numpy() if stored.numel() else b"")  # type: ignore[arg-type]
        done = 0
        try:
            # a call of the system reads 2 GiB at most
            while done < len(room):
                count = os.preadv(stream.fileno(), [room[done:]], begin + done)
                if count == 0:
                    raise ModelError(f"{self.path} has been cut short while it was streamed. {self.again}")
                done += count
        except OSError as error:
            raise ModelError(f"{self.path} cannot be read ({error.strerror or error}). {self.again}") from error
        if stored is not target:
            target.copy_(stored)
        return done

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            stream = open_regular(self.path, self.path.parent)
        except OSError as error:
            raise ModelError(
                f"{self.path}, {self.use} cannot be opened ({error.strerror or error}). {self.again}"
            ) from error
        with stream:
            yield stream

    def _require_same(self, now: Stamp) -> None:
        if now != self._stamp:
            size, before = now[0], self._stamp[0]
            what = f"its size is {size:,} bytes and was {before:,}" if size != before else "it was written again"
            raise ModelError(f"{self.path} has changed since {self.since} ({what}). {self.again}")


def _place(entry: Mapping[str, Any], begin: int) -> Place:
    """Return the place that a header's entry names; ``begin`` is where the header ends."""
    start, stop = entry["data_offsets"]
    numbers = (start, stop, *entry["shape"])
    if not isinstance(entry["shape"], list) or not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a shape or a place that is not of whole numbers")
    return Place(begin + start, begin + stop, _DTYPES.get(entry["dtype"]), tuple(entry["shape"]))


def _stamp(stream: BinaryIO) -> Stamp:
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino

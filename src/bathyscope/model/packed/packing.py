"""What every way of packing says of itself: which tensors are the parts of one weight, and what they unpack to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.streaming.files import Place

MISMATCH = "The quantization_config in config.json belongs to another checkpoint, or the files are damaged."
"""What a weight whose parts do not fit means."""
NOT_WHOLE = "The checkpoint is not whole; download it again."
_SHOWN = 60
_WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class PackedLayout:
    """How one weight is packed.

    Args:
        shape: of the unpacked weight.
        words: such as ``4-bit, group 128``.
        bits: of each number; 0 where they need not be known.
        block: how many numbers share a scale, by axis of the unpacked weight.
    """

    shape: tuple[int, ...]
    words: str
    bits: int = 0
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class StoredParts:
    """The parts of one packed weight, as the headers of the files have them.

    Args:
        folder: the checkpoint.
        weight: the name of the unpacked weight.
        places: by part, its shape and dtype.
        read: returns a part; for the few that say what the others are.
        note: what the file's metadata say of the weight; empty where they say nothing.
    """

    folder: Path
    weight: str
    places: Mapping[str, Place]
    read: Callable[[str], Tensor]
    note: str = ""

    def shape(self, part: str) -> tuple[int, ...]:
        """Return the shape of a part."""
        return self.places[part].shape

    def require(self, parts: Mapping[str, int]) -> None:
        """Refuse a weight without one of these parts, or with another number of axes.

        Raises:
            ModelError: names the part.
        """
        missing = [part for part in parts if part not in self.places]
        if missing:
            raise self.refusal(f"lacks its {missing[0]}", NOT_WHOLE)
        for part, axes in parts.items():
            if 0 in self.shape(part):
                raise self.refusal(f"has an empty {part}", NOT_WHOLE)
            if len(self.shape(part)) != axes:
                raise self.refusal(f"has a {part} of {len(self.shape(part))} axes, for {axes}", MISMATCH)

    def require_shape(self, part: str, expected: tuple[int, ...], reason: str) -> None:
        """Refuse a part of another shape than the other parts and the configuration ask for.

        Raises:
            ModelError: with both shapes.
        """
        if self.shape(part) != expected:
            has, needed = ("×".join(map(str, shape)) or "one number" for shape in (self.shape(part), expected))
            raise self.refusal(f"has a {part} of {has}, and {reason} asks for {needed}", MISMATCH)

    def require_whole(self, *parts: str) -> None:
        """Refuse a part that is not stored in whole numbers, where the weight has it.

        Raises:
            ModelError: names the part and how it is stored.
        """
        for part in parts:
            place = self.places.get(part)
            if place is not None and place.dtype not in _WHOLE:
                raise self.refusal(f"has a {part} in {place.dtype}, for whole numbers", MISMATCH)

    def refusal(self, reason: str, remedy: str) -> ModelError:
        """Return the error that this weight cannot be unpacked."""
        return ModelError(f"{self.folder}: {self.weight} {reason}. {remedy}")


class Packing(ABC):
    """One way of packing, with what a checkpoint's configuration says of it.

    Args:
        declared: the ``quantization_config`` of the checkpoint.
    """

    method: ClassVar[str]
    """The name of the format, as runs say it."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.declared = declared

    @property
    def unsupported(self) -> str | None:
        """Why a checkpoint of this configuration cannot be unpacked; None where it can."""
        return None

    @property
    def rounds_activations(self) -> bool:
        """Whether the checkpoint is served with activations rounded too, which unpacked weights do not do."""
        return False

    @abstractmethod
    def part_of(self, name: str) -> tuple[str, str] | None:
        """Return the weight that a stored tensor may be a part of, and which part; None = it is of no use."""

    def is_packed(self, places: Mapping[str, Place]) -> bool:
        """Whether tensors that may be parts of one weight are; otherwise they are plain ones."""
        return "weight" not in places

    @abstractmethod
    def layout(self, parts: StoredParts) -> PackedLayout:
        """Return how a weight is packed.

        Raises:
            ModelError: parts that are missing, or do not fit each other or the configuration.
        """

    @abstractmethod
    def unpack(self, parts: Mapping[str, Tensor], layout: PackedLayout) -> Tensor:
        """Return the weight in float32."""

    def number(self, entry: str, default: int) -> int:
        """Return a number of bits or of inputs in a group; −1 = all of them.

        Raises:
            ModelError: something else.
        """
        value = self.declared.get(entry, default)
        if not isinstance(value, int) or isinstance(value, bool) or (value < 1 and value != -1):
            raise ModelError(
                f"The quantization_config declares {entry}: {value!r:.{_SHOWN}}; it is a whole number above 0, or -1 "
                "for all of a row. Compare config.json with the original's."
            )
        return value


def split_name(name: str, parts: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the weight and the part of a name such as ``layers.0.up_proj.qweight``; None where it ends otherwise."""
    module, _, last = name.rpartition(".")
    return (f"{module}.weight", last) if last in parts else None


def as_block(sizes: Any) -> tuple[int, int] | None:
    """Return the rows and columns that share a scale; None where a configuration says something else."""
    if not isinstance(sizes, list | tuple) or len(sizes) != 2:
        return None
    rows, columns = sizes
    return (rows, columns) if all(isinstance(size, int) and size > 0 for size in sizes) else None


def require_groups(groups_I: Tensor, count: int) -> Tensor:
    """Return the group of each input, which is one of ``count`` groups.

    Raises:
        ValueError: another one; a number below 0 would be counted from the end.
    """
    if int(groups_I.min()) < 0 or int(groups_I.max()) >= count:
        raise ValueError(f"an input in group {int(groups_I.min())} to {int(groups_I.max())} of {count}")
    return groups_I.long()


def in_groups(size: int) -> str:
    """Return how many numbers share a scale, in words; −1 = all of a row."""
    return "per channel" if size < 0 else f"group {size}"

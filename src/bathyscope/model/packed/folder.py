"""A quantised checkpoint in a folder, as the plain weights that it stands for; each is unpacked when it is needed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from bathyscope.core.text import elided
from bathyscope.errors import ModelError
from bathyscope.model.files import SINGLE, indexed
from bathyscope.model.packed.packing import MISMATCH, PackedLayout, Packing, StoredParts
from bathyscope.model.packed.registry import packing_of, quantisation_of
from bathyscope.model.streaming.files import CheckpointFile, Place

_TINY_BYTES = 1 << 16


@dataclass(frozen=True)
class PackedWeight:
    """One weight of a packed checkpoint.

    Args:
        places: by part, the file and the tensor in it.
        layout: how the parts are packed; None = it is a plain tensor.
    """

    places: Mapping[str, tuple[CheckpointFile, str]]
    layout: PackedLayout | None

    def read(self, part: str) -> Tensor:
        """Read one part.

        Raises:
            ModelError: the file is missing, was cut short or has changed.
        """
        file, name = self.places[part]
        place = file.places[name]
        if place.dtype is None:
            raise ModelError(f"{file.path} keeps {name} in fewer bits than a byte, which is not unpacked.")
        target = torch.empty(place.shape, dtype=place.dtype)
        with file.reading() as stream:
            file.read(stream, name, target)
        return target


@dataclass(frozen=True)
class LazyWeight:
    """A weight that is read and unpacked when it is indexed, which is how the library reads tensors of files."""

    give: Callable[[], Tensor]

    def __getitem__(self, index: Any) -> Tensor:
        return self.give()[index]


class PackedFolder:
    """The weights of a quantised checkpoint.

    Args:
        folder: with all of its files.
        packing: how they are packed.

    Raises:
        ModelError: parts that are missing, or do not fit each other or the configuration.
    """

    def __init__(self, folder: Path, packing: Packing) -> None:
        self.folder, self._packing = folder, packing
        self.weights = dict(self._weights())

    @cached_property
    def description(self) -> str | None:
        """What a run says of the weights, such as ``gptq 4-bit, group 128``; None where none of them is packed.

        The kind of most numbers comes first.
        """
        numbers: Counter[str] = Counter()
        for weight in self.weights.values():
            if weight.layout is not None:
                numbers[weight.layout.words] += torch.Size(weight.layout.shape).numel()
        if not numbers:
            return None
        kinds = "; ".join(sorted(numbers, key=lambda words: (-numbers[words], words)))
        activations = " (activations are not rounded)" if self._packing.rounds_activations else ""
        return f"{self._packing.method} {kinds}{activations}"

    @property
    def warning(self) -> str | None:
        """What a reader of results must know where the configuration declares packed weights and none is."""
        if self.description is not None:
            return None
        return (
            f"Its configuration declares quantised weights ({self._packing.method}), and all of its tensors are plain "
            "numbers, which are measured as they are."
        )

    def nbytes(self, dtype: torch.dtype) -> int:
        """Return how many bytes the unpacked weights take."""
        shapes = (
            weight.layout.shape if weight.layout is not None else self._place(weight).shape
            for weight in self.weights.values()
        )
        return sum(torch.Size(shape).numel() for shape in shapes) * dtype.itemsize

    def tensors(self, outline: torch.nn.Module) -> dict[str, LazyWeight]:
        """Return all weights by name.

        Args:
            outline: the model without weights; modules whose weights are [inputs, outputs] there (those of GPT-2) are
                packed as [outputs, inputs] all the same.
        """
        turned = tuple(f"{path}.weight" for path, module in outline.named_modules() if isinstance(module, Conv1D))
        return {
            name: LazyWeight(partial(self._unpack, weight, is_in(name, turned)))
            for name, weight in self.weights.items()
        }

    def _unpack(self, weight: PackedWeight, turn: bool) -> Tensor:
        if weight.layout is None:
            return weight.read(next(iter(weight.places)))
        parts = {part: weight.read(part) for part in weight.places}
        try:
            unpacked = self._packing.unpack(parts, weight.layout)
        except (ValueError, IndexError) as error:
            file = next(iter(weight.places.values()))[0]
            name = next(name for name, entry in self.weights.items() if entry is weight)
            raise ModelError(f"{file.path}: {name} cannot be unpacked ({elided(error, 80)}). {MISMATCH}") from error
        return unpacked.T.contiguous() if turn else unpacked

    def _weights(self) -> Iterable[tuple[str, PackedWeight]]:
        names = [SINGLE] if (self.folder / SINGLE).is_file() else indexed(self.folder)
        groups: dict[str, dict[str, tuple[CheckpointFile, str]]] = {}
        for file in (CheckpointFile(self.folder / name) for name in names):
            for tensor in file.places:
                part = self._packing.part_of(tensor)
                if part is not None:
                    groups.setdefault(part[0], {})[part[1]] = (file, tensor)
        for name, places in groups.items():
            heads = {part: file.places[tensor] for part, (file, tensor) in places.items()}
            if self._packing.is_packed(heads):
                _require_real(self.folder, name, heads)
                written = {file.metadata.get(name) for file, _ in places.values()} - {None}
                read = self._tiny(name, PackedWeight(places, None))
                layout = self._packing.layout(StoredParts(self.folder, name, heads, read, str(next(iter(written), ""))))
                yield name, PackedWeight(places, layout)
            else:
                for file, tensor in places.values():
                    yield tensor, PackedWeight({"weight": (file, tensor)}, None)

    def _tiny(self, name: str, weight: PackedWeight) -> Callable[[str], Tensor]:
        """Return what reads parts that say what the others are; a damaged one may claim to be large."""

        def read(part: str) -> Tensor:
            file, tensor = weight.places[part]
            place = file.places[tensor]
            if place.stop - place.start > _TINY_BYTES:
                raise ModelError(f"{self.folder}: {name} has a {part} of {place.stop - place.start:,} bytes.")
            return weight.read(part)

        return read

    @staticmethod
    def _place(weight: PackedWeight) -> Place:
        file, name = next(iter(weight.places.values()))
        return file.places[name]


def _require_real(folder: Path, name: str, places: Mapping[str, Place]) -> None:
    """Refuse parts that are stored in no kind of number that a packed weight has."""
    for part, place in places.items():
        if place.dtype is not None and (place.dtype.is_complex or place.dtype is torch.bool):
            kind = str(place.dtype).removeprefix("torch.")
            raise ModelError(f"{folder}: {name} has a {part} in {kind}. {MISMATCH}")


def is_in(name: str, paths: tuple[str, ...]) -> bool:
    """Whether a stored name is one of a model's, or one of them without what is before the base model's names."""
    return name in paths or any(path.endswith(f".{name}") for path in paths)


def open_packed(name: str, config: Any, find: Callable[[], Path]) -> PackedFolder | None:
    """Open a quantised checkpoint that is unpacked here; None where its weights are plain or left to transformers.

    Args:
        config: as it was written.
        find: returns the folder with all files, which are fetched for it where they have to be.

    Raises:
        ModelError: a variant that is not unpacked, or an unknown one; parts that are missing or do not fit.
    """
    packing = packing_of(config)
    if packing is None:
        _require_known(name, quantisation_of(config))
        return None
    if packing.unsupported is not None:
        raise ModelError(
            f"{name} is quantised ({packing.method}) in a way that is not unpacked: {packing.unsupported}. Give the "
            "checkpoint before it was quantised, or quantise it in another format."
        )
    return PackedFolder(find(), packing)


def _require_known(name: str, declared: Mapping[str, Any] | None) -> None:
    """Refuse a method that transformers does not know either: it would take the packed numbers without their scales."""
    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    method = None if declared is None else declared.get("quant_method")
    if method is not None and str(getattr(method, "value", method)) not in AUTO_QUANTIZER_MAPPING:
        raise ModelError(
            f"{name} is quantised by {elided(repr(method), 40)}, which neither bathyscope nor transformers can unpack. "
            "Give the checkpoint before it was quantised, or compare its quantization_config with the original's."
        )


def forget_quantisation(config: Any) -> None:
    """Remove from a configuration how the files have packed the weights, which are plain from here on."""
    for place in (config, getattr(config, "text_config", None)):
        if place is not None and "quantization_config" in vars(place):
            del place.quantization_config

"""Is a checkpoint whole and sound before it is copied? Shapes, numbers, and what is next to the weights."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from bathyscope.core.foreign import read_regular
from bathyscope.errors import ModelError, StoreError
from bathyscope.model.completeness import is_scattered, scattered
from bathyscope.model.weights import WeightReading
from bathyscope.surgery.checkpoint.source import Source, list_companions
from bathyscope.surgery.checkpoint.weight_files import TensorInFile, stored_in

_FLOATS: Final = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_TOKENIZER: Final = "tokenizer.json"


def require_sound(source: Source) -> None:
    """Refuse weights that are not finite, and a tokenizer or settings that nobody could read.

    Raises:
        ModelError: names the tensor or the file.
    """
    bad = WeightReading(source.hf).bad if source.hf is not None else _find_not_finite(source.files)
    if bad:
        raise ModelError(
            f"{source.name} has weights that are NaN or Inf: {bad}. A copy would be as broken; restore the checkpoint, "
            "or train on from an earlier one."
        )
    for file in list_companions(source):
        fault = _find_fault(file)
        if fault:
            raise ModelError(
                f"{file} cannot be read ({fault}), and the copy would have it too. Restore the file, save the "
                "tokenizer again (tokenizer.save_pretrained), or remove it."
            )


def require_shape(name: str, shape: tuple[int, ...], configured: Iterable[int]) -> None:
    """Refuse a stored tensor of another shape than the configuration gives it.

    Raises:
        ModelError: names the tensor and both shapes.
    """
    expected = tuple(configured)
    if tuple(shape) != expected:
        if is_scattered(shape):
            raise ModelError(scattered("The checkpoint"))
        raise ModelError(
            f"{name} is {_shape_text(shape)} in the checkpoint, and its configuration makes it "
            f"{_shape_text(expected)}; the copy could not be loaded. Give the config.json that the weights were saved "
            "with."
        )


def require_apart(copied: Path | None, folder: Path) -> None:
    """Refuse to write into the folder that is copied.

    Args:
        copied: None = nothing is copied from a folder.
        folder: to be written.

    Raises:
        StoreError: the folder is the source's, or is in it.
    """
    if copied is None:
        return
    source_folder, target = copied.resolve(), folder.absolute()
    target = target.parent.resolve() / target.name
    if target == source_folder or source_folder in target.parents:
        where = "is" if target == source_folder else "lies inside of"
        raise StoreError(
            f"{str(folder)!r} {where} the folder of the model that is exported, which stays as it is; give a folder "
            "outside of it."
        )


def _find_not_finite(files: Iterable[Path]) -> str:
    """Return the first tensor of some files that holds NaN or Inf; empty where all are finite."""
    for file in files:
        stored: Mapping[str, TensorInFile] = stored_in(file)
        for name, tensor in stored.items():
            dtype = _FLOATS.get(tensor.kind)
            if dtype is not None and not all(_is_finite(piece, dtype) for piece in tensor.pieces()):
                return name
    return ""


def _is_finite(piece: bytes, dtype: torch.dtype) -> bool:
    values: Tensor = torch.frombuffer(bytearray(piece), dtype=dtype)
    return bool(torch.isfinite(values).all())


def _find_fault(file: Path) -> str:
    """Return what is wrong with a file next to the weights; empty where it can be read."""
    if file.suffix != ".json":
        return ""
    try:
        json.loads(read_regular(file))
        if file.name == _TOKENIZER:
            from tokenizers import Tokenizer

            Tokenizer.from_file(str(file))
    except Exception as error:  # the tokenizers library raises bare exceptions of its own
        return " ".join(f"{type(error).__name__}: {error}".split())[:120]
    return ""


def _shape_text(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape)) or "a number"

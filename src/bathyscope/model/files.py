"""The files of a checkpoint, looked at before any of them is loaded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from bathyscope.errors import ModelError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_WHOLE_NUMBERS = ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64")
_LFS = b"version https://git-lfs"


def require_whole(folder: Path, declared: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose files are damaged, missing, outside its folder, or hold something else.

    Args:
        declared: the configuration as it was written.

    Raises:
        ModelError: names the file, and the tensor where it is one.
    """
    names = indexed(folder)
    quantised = declared.get("quantization_config") is not None
    for name in [SINGLE] if (folder / SINGLE).is_file() else names:
        for tensor, kind in _header(folder / name).items():
            if not quantised and tensor.endswith("weight") and kind in _WHOLE_NUMBERS:
                raise ModelError(
                    f"{folder / name} stores {tensor} as whole numbers ({kind}), and the configuration declares no "
                    "quantisation, so that their scales would be left out; give the checkpoint with its "
                    "quantization_config, or one in floating point."
                )


def indexed(folder: Path) -> list[str]:
    """List the files that a checkpoint's index names; none where it has no index.

    Every index is looked at, since the library may read any of them; the files are those of the one for weights.

    Raises:
        ModelError: an index that cannot be read, or that names a file outside the folder.
    """
    file_names: set[str] = set()
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(
                f"{index} is no readable index of a checkpoint ({type(error).__name__}: {error}); download it again."
            ) from error
        for name in names:
            if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
                raise ModelError(
                    f"{index} names {name!r}; a checkpoint's files are plain names inside its own folder, and nothing "
                    "else is read. Get the checkpoint from a source that can be trusted."
                )
        file_names |= names if index.name == INDEX else set()
    return sorted(file_names)


def _header(file: Path) -> dict[str, str]:
    """Return the tensors of a safetensors file and how they are stored."""
    # common mistakes are named first, of which the library says that a header is too large or too small
    try:
        with file.open("rb") as stream:
            start = stream.read(len(_LFS)).lstrip()
    except OSError as error:
        raise ModelError(
            f"{file} cannot be read ({error.strerror}): the checkpoint is incomplete; download it again."
        ) from error
    if not start:
        raise ModelError(f"{file} is empty; download the checkpoint again.")
    if start.startswith(_LFS):
        raise ModelError(f"{file} is a pointer of Git LFS, not the weights themselves; fetch them with git lfs pull.")
    if start.startswith(b"<"):
        raise ModelError(f"{file} is a web page and not a safetensors file; download the checkpoint again.")
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{file} is no whole safetensors file ({error}): it was cut short, or is something else under that name; "
            "download the checkpoint again."
        ) from error

"""The files of a checkpoint, looked at before any of them is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from bathyscope.core.foreign import MOST, MOST_TEXT, open_regular, read_regular, require_regular
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import ModelError

if TYPE_CHECKING:
    from bathyscope.model.streaming.files import CheckpointFile

ADAPTER = "adapter_config.json"
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_WHOLE_NUMBERS = ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64")
_TEXTS = (".json", ".txt", ".jinja", ".py", ".md")
_READ = (*_TEXTS, ".safetensors", ".model", ".tiktoken", ".vocab")
_COPIED = ("LICENSE", "NOTICE")
_TEMPLATES = "additional_chat_templates"
"""The one folder of a checkpoint that its tokenizer reads."""
_BLOCKS = "num_hidden_layers"
_MANY_BLOCKS = 500
_COMPARED_BYTES = 4096
"""Of each tensor of two sets of weights."""
_READ_AT_ONCE = 1 << 24
"""Bytes of a tensor that is compared with another one."""
_LFS = b"version https://git-lfs"


def require_whole(folder: Path, declared: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose files are damaged, missing, outside its folder, or hold something else.

    Args:
        declared: the configuration as it was written.

    Raises:
        ModelError: names the file, and the tensor where it is one; also two sets of weights in one folder, and a tensor
            with several values.
    """
    names = indexed(folder)
    quantised = declared.get("quantization_config") is not None
    is_single = (folder / SINGLE).is_file()
    stored: dict[str, str] = {}
    for name in [SINGLE] if is_single else names:
        tensors = _header(folder / name)
        for tensor in sorted(stored.keys() & tensors.keys()):
            _require_same_bytes(folder, tensor, stored[tensor], name)
        stored |= dict.fromkeys(tensors, name)
        for tensor, kind in tensors.items():
            if not quantised and tensor.endswith("weight") and kind in _WHOLE_NUMBERS:
                raise ModelError(
                    f"{folder / name} stores {tensor} as whole numbers ({kind}), and the configuration declares no "
                    "quantisation, so that their scales would be left out; give the checkpoint with its "
                    "quantization_config, or one in floating point."
                )
    if is_single:
        _require_one_set(folder, [name for name in names if name != SINGLE and (folder / name).is_file()])
    _require_stored_blocks(folder, stored, declared)


def _require_one_set(folder: Path, shards: Sequence[str]) -> None:
    """Refuse a folder with other weights in its single file than in the shards of its index; the library reads one.

    Of each tensor only its beginning is compared, so that a large model is not read twice.

    Args:
        shards: the files of the index that are in the folder.

    Raises:
        ModelError: names both, and the first tensor that differs.
    """
    if not shards:
        return
    single = _opened(folder / SINGLE)
    sharded = {tensor: file for file in (_opened(folder / name) for name in shards) for tensor in file.places}
    for tensor in sorted(single.places.keys() | sharded.keys()):
        in_both = tensor in single.places and tensor in sharded
        if not in_both or _begins(single, tensor) != _begins(sharded[tensor], tensor):
            count = "file" if len(shards) == 1 else "files"
            raise ModelError(
                f"{folder} holds two sets of weights that differ ({tensor}): {SINGLE}, and {len(shards)} {count} of "
                f"{INDEX} ({list_names(shards, 1)}). Remove {SINGLE}, or that index and its files, whichever is not "
                "the model."
            )


def _opened(path: Path) -> CheckpointFile:
    from bathyscope.model.streaming.files import CheckpointFile  # needs torch, which the names of files do not

    return CheckpointFile(path)


def _begins(file: CheckpointFile, tensor: str) -> tuple[object, ...]:
    """Return a tensor's type and shape, and its first bytes."""
    place = file.places[tensor]
    with file.reading() as stream:
        stream.seek(place.start)
        return place.dtype, place.shape, stream.read(min(_COMPARED_BYTES, place.stop - place.start))


def _require_same_bytes(folder: Path, tensor: str, first: str, second: str) -> None:
    """Refuse two shards that hold a tensor with different values: which of them is read depends on the placement.

    Raises:
        ModelError: names the tensor and both files.
    """
    files = [_opened(folder / name) for name in (first, second)]
    places = [file.places[tensor] for file in files]
    is_same = len({(place.dtype, place.shape, place.stop - place.start) for place in places}) == 1
    if is_same:
        with files[0].reading() as first_stream, files[1].reading() as second_stream:
            for stream, place in zip((first_stream, second_stream), places):
                stream.seek(place.start)
            left = places[0].stop - places[0].start
            while left and is_same:
                count = min(left, _READ_AT_ONCE)
                is_same = first_stream.read(count) == second_stream.read(count)
                left -= count
    if not is_same:
        raise ModelError(
            f"{folder} stores {tensor} twice with different values, in {first} and {second}. Remove it from one of "
            "them, or save the model again (save_pretrained)."
        )


def _require_stored_blocks(folder: Path, tensors: Collection[str], declared: Mapping[str, Any]) -> None:
    """Refuse hundreds of blocks that no file has, which would be built for minutes before they are found missing."""
    nested = declared.get("text_config")
    blocks = nested.get(_BLOCKS) if isinstance(nested, Mapping) else declared.get(_BLOCKS)
    stored = fewer_blocks(blocks, tensors)
    if stored:
        raise ModelError(
            f"{folder} declares {_BLOCKS}: {blocks:,}, and its weights are those of at most {stored:,} blocks. "
            f"{remedy(folder)}"
        )


def fewer_blocks(declared: object, tensors: Collection[str]) -> int:
    """Return how many blocks there are weights of, at most, where hundreds more are declared; 0 where none are."""
    numbers = [int(part) for tensor in tensors for part in tensor.split(".") if part.isdecimal() and len(part) < 9]
    stored = max(numbers, default=-1) + 1
    is_absurd = isinstance(declared, int) and declared > max(_MANY_BLOCKS, 2 * stored)
    return stored if is_absurd else 0


def require_own_files(folder: Path) -> None:
    """Refuse a checkpoint some of whose files are no files, or links that lead out of its folder.

    Libraries read a checkpoint by the names of its files, and ``export`` copies what is next to the weights. Only
    what may be read or copied is looked at; of folders, only that of further chat templates is entered.

    Raises:
        ModelError: names the file.
    """
    try:
        for file in sorted([*_files_in(folder), *_files_in(folder / _TEMPLATES)]):
            suffix = file.suffix
            if suffix in _READ or file.name.startswith(_COPIED):
                # a link that leads nowhere is missing, which its reader says
                with suppress(FileNotFoundError):
                    require_regular(file, folder, MOST_TEXT if suffix in _TEXTS else MOST)
    except OSError as error:
        raise ModelError(
            f"{error.filename or folder} cannot be read: {error.strerror or error}. Copy what is meant into the folder "
            "itself, or get the checkpoint from a source that can be trusted."
        ) from error


def _files_in(folder: Path) -> list[Path]:
    return [folder / entry.name for entry in os.scandir(folder) if not entry.is_dir()] if folder.is_dir() else []


def require_own_base(name: str, adapter: Path) -> None:
    """Refuse a repository of an adapter: the library would read the weights from wherever that says, unasked.

    Args:
        name: of the repository.
        adapter: its ``adapter_config.json``.

    Raises:
        ModelError: names the other place.
    """
    try:
        base = read_json(read_regular(adapter)).get("base_model_name_or_path")
    except DAMAGED as error:
        reason = elided(error, 80)
        raise ModelError(f"{name} has no readable adapter_config.json ({reason}). Download it again.") from error
    if base and base != name:
        raise ModelError(
            f"{name} is an adapter, whose weights lie in {elided(repr(base), 60)}; nothing is read from there unasked. "
            "Load that model and the adapter yourself and give it in memory, or merge and save them."
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
            names = set(json.loads(read_regular(index, folder))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(
                f"{index} is no readable index of a checkpoint ({type(error).__name__}: {error}). {remedy(folder)}"
            ) from error
        for name in names:
            if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
                raise ModelError(
                    f"{index} names {name!r}; a checkpoint's files are plain names inside its own folder, and nothing "
                    "else is read. Get the checkpoint from a source that can be trusted."
                )
        file_names |= names if index.name == INDEX else set()
    return sorted(file_names)


def places_of_weights(folder: Path) -> dict[str, str]:
    """Return which file holds each weight, as a checkpoint's index says; nothing where it has no index."""
    try:
        places = json.loads(read_regular(folder / INDEX, folder))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(places) if isinstance(places, Mapping) else {}


def remedy(folder: Path) -> str:
    """Return how a damaged checkpoint is made whole again."""
    # Only what came from the hub can be downloaded again; its cache has a folder of this name for every model.
    if "snapshots" in folder.parts:
        return "Download the checkpoint again."
    return "Restore the file, or save the model again (save_pretrained)."


def list_names(names: Collection[str], most: int = 3) -> str:
    """Return the first of several names, and how many more there are, for a message."""
    more = len(names) - most
    return ", ".join(sorted(names)[:most]) + (f" and {more} more" if more > 0 else "")


def _header(file: Path) -> dict[str, str]:
    """Return the tensors of a safetensors file and how they are stored."""
    # common mistakes are named first, of which the library says that a header is too large or too small
    try:
        with open_regular(file, file.parent) as stream:
            start = stream.read(len(_LFS)).lstrip()
    except OSError as error:
        weights = [weight for weight, name in places_of_weights(file.parent).items() if name == file.name]
        missing = f": {list_names(weights)}" if weights else ""
        raise ModelError(
            f"{file} cannot be read ({error.strerror}), so that its weights are missing{missing}. {remedy(file.parent)}"
        ) from error
    if not start:
        raise ModelError(f"{file} is empty. {remedy(file.parent)}")
    if start.startswith(_LFS):
        raise ModelError(f"{file} is a pointer of Git LFS, not the weights themselves; fetch them with git lfs pull.")
    if start.startswith(b"<"):
        raise ModelError(f"{file} is a web page and not a safetensors file. {remedy(file.parent)}")
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{file} is no whole safetensors file ({error}): it was cut short, or is something else under that name. "
            f"{remedy(file.parent)}"
        ) from error

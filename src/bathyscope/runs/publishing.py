"""A run as it is published: the last names of folders and files, and not where they are on somebody's disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope.core.text import without_folders, without_places
from bathyscope.runs.folder import Folder, verified
from bathyscope.runs.manifest import RUN, FileEntry, Identity, Manifest, part_file
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE
from bathyscope.runs.shards import Datasets, encode, read_shard

_ROOTS: Final = ("/", "~/")
_SOURCE: Final = "dataset"
"""The coordinate, and the field of a prompt, that says where a prompt came from."""


def write_without_places(source: Path, manifest: Manifest, target: Path) -> None:
    """Copy a run's folder with every absolute path in it written as its last name.

    Results, token ids and labels stay as they are; what names a place are the model, sources of prompts, options that
    are files, the command and notes.

    Args:
        source: the run's folder.
        manifest: of the run.
        target: the folder to be written.

    Raises:
        StoreError: a file of the run was altered, or the target cannot be written.
    """
    tree = without_places_in(manifest.to_dict())
    published = Manifest.from_tree(tree, "the run's manifest")
    entries: list[tuple[int | None, FileEntry | None]] = [
        *manifest.record.shards.items(),
        (None, manifest.record.derived),
    ]
    with Folder(target, RUN) as folder:
        for index, entry in entries:
            if entry is not None:
                datasets = read_shard(source, entry.file, entry.sha256, manifest.identity.marks(index))
                published = published.with_part(index, _write_part(folder, index, datasets, published.identity))
        files: dict[str, FileEntry] = {}
        for name, entry in manifest.record.files.items():
            content = verified(source, entry.file, entry.sha256)
            content = _prompts_without_places(content) if name == PROMPTS else content
            file = PROMPTS_FILE if name == PROMPTS else entry.file
            files[name] = FileEntry(file, folder.write(file, content))
        folder.save(published.with_record(files=files).to_dict())


def without_places_in(value: Any) -> Any:
    """Return plain values with every absolute path in their texts, keys among them, written as its last name."""
    if isinstance(value, str):
        # a text that is a path as a whole may hold blanks
        return without_places(without_folders(value) if value.startswith(_ROOTS) else value)
    if isinstance(value, Mapping):
        return {without_places_in(key): without_places_in(inner) for key, inner in value.items()}
    return [without_places_in(inner) for inner in value] if isinstance(value, list | tuple) else value


def listed(folder: Path) -> list[tuple[str, int]]:
    """Return every file that a folder would publish, with its bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]


def _write_part(folder: Folder, index: int | None, datasets: Datasets, identity: Identity) -> str:
    shortened = {name: _dataset_without_places(dataset) for name, dataset in datasets.items()}
    return folder.write(part_file(index), encode(shortened, identity.marks(index)))


def _dataset_without_places(dataset: xr.Dataset) -> xr.Dataset:
    shortened = dataset.assign_attrs(without_places_in(dataset.attrs))
    if _SOURCE in dataset.coords:
        names = [without_places(str(name)) for name in dataset[_SOURCE].values.flat]
        source = dataset[_SOURCE].copy(data=np.array(names).reshape(dataset[_SOURCE].shape))
        shortened = shortened.assign_coords({_SOURCE: source})
    return shortened


def _prompts_without_places(content: bytes) -> bytes:
    return b"\n".join(_line_without_places(line) for line in content.split(b"\n"))


def _line_without_places(content: bytes) -> bytes:
    line = json.loads(content) if content else {}
    shortened = without_places(str(line.get(_SOURCE, "")))
    # ids, labels and texts stay as they were written, to the byte, where no place is named
    if shortened == str(line.get(_SOURCE, "")):
        return content
    return json.dumps({**line, _SOURCE: shortened}, ensure_ascii=False, separators=(",", ":")).encode()

"""A run as it is published: the last names of folders and files, and not where they are on somebody's disk."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr

from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided, left_over_place
from bathyscope.errors import StoreError
from bathyscope.runs.folder import MOST_DEEP, Folder, verified
from bathyscope.runs.manifest import RUN, FileEntry, Identity, Manifest, part_file
from bathyscope.runs.netcdf import encode
from bathyscope.runs.places import Places, require_no_place
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE
from bathyscope.runs.shards import Datasets, read_shard

_SOURCE: Final = "dataset"
"""The coordinate, and the field of a prompt, that says where a prompt came from."""


def write_without_places(source: Path, manifest: Manifest, target: Path) -> None:
    """Copy a run's folder with every absolute path in it written as its last name.

    Results, token ids, ids and labels of prompts stay as they are; what names a place are the model, sources of
    prompts, options that are files, the command, notes, and what measures say of their results.

    Args:
        source: the run's folder.
        manifest: of the run.
        target: the folder to be written.

    Raises:
        StoreError: a file of the run was altered, the target cannot be written, or a text names a place that cannot be
            shortened.
    """
    places = Places(manifest.to_dict(), [source.absolute(), source.resolve()])
    tree = places.without_in(manifest.to_dict())
    require_no_place(tree, f"The manifest of {str(source)!r}")
    published = Manifest.from_tree(tree, "the run's manifest")
    entries: list[tuple[int | None, FileEntry | None]] = [
        *manifest.record.shards.items(),
        (None, manifest.record.derived),
    ]
    with Folder(target, RUN) as folder:
        for index, entry in entries:
            if entry is not None:
                datasets = read_shard(source, entry.file, entry.sha256, manifest.identity.marks(index))
                published = published.with_part(index, _write_part(folder, index, places, datasets, published.identity))
        files: dict[str, FileEntry] = {}
        for name, entry in manifest.record.files.items():
            content = verified(source, entry.file, entry.sha256)
            content = _prompts_without_places(content, places) if name == PROMPTS else content
            file = PROMPTS_FILE if name == PROMPTS else entry.file
            files[name] = FileEntry(file, folder.write(file, content))
        folder.save(published.with_record(files=files).to_dict())


def listed(folder: Path) -> list[tuple[str, int]]:
    """Return every file that a folder would publish, with its bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]


def _write_part(folder: Folder, index: int | None, places: Places, datasets: Datasets, identity: Identity) -> str:
    shortened = {name: _dataset_without_places(dataset, places, name) for name, dataset in datasets.items()}
    return folder.write(part_file(index), encode(shortened, identity.marks(index)))


def _dataset_without_places(dataset: xr.Dataset, places: Places, name: str) -> xr.Dataset:
    """Shorten attributes, sources of prompts, and every text that is no id or label of a prompt."""
    variables = {
        label: _variable_without_places(label, variable, places) for label, variable in dataset.variables.items()
    }
    attrs = {"attrs": dataset.attrs, **{str(label): variable.attrs for label, variable in variables.items()}}
    shortened = xr.Dataset(
        {label: variables[label] for label in dataset.data_vars},
        coords={label: variables[label] for label in dataset.coords},
        attrs=places.without_in(dataset.attrs),
    )
    require_no_place({**attrs, "attrs": shortened.attrs}, f"What {name or 'the run'} says of its results")
    return shortened


def _variable_without_places(label: Hashable, variable: xr.Variable, places: Places) -> xr.Variable:
    values = variable.values
    if values.dtype.kind == "U" and (label == _SOURCE or "prompt" not in variable.dims):
        shorten = places.without if label == _SOURCE else partial(_text_without_places, places)
        values = np.array([shorten(str(text)) for text in values.flat], dtype=str).reshape(values.shape)
    return xr.Variable(variable.dims, values, places.without_in(variable.attrs))


def _text_without_places(places: Places, text: str) -> str:
    """Shorten what is a path; pieces of tokens, such as ``./``, only look like one."""
    public = places.without_known(text)
    return places.without(public) if left_over_place(public) else public


def _prompts_without_places(content: bytes, places: Places) -> bytes:
    """Shorten the sources of prompts.

    Raises:
        StoreError: a line that is no prompt's.
    """
    try:
        return b"\n".join(_line_without_places(line, places) for line in content.split(b"\n"))
    except DAMAGED as error:
        raise StoreError(
            f"The prompts of the run cannot be read ({type(error).__name__}: {elided(error, 80)}). "
            f"Restore {PROMPTS_FILE} from a copy, or survey again."
        ) from error


def _line_without_places(content: bytes, places: Places) -> bytes:
    line = read_json(content, MOST_DEEP) if content else {}
    shortened = places.without(str(line.get(_SOURCE, "")))
    # ids, labels and texts stay as they were written, to the byte, where no place is named
    if shortened == str(line.get(_SOURCE, "")):
        return content
    return json.dumps({**line, _SOURCE: shortened}, ensure_ascii=False, separators=(",", ":")).encode()

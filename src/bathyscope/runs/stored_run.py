"""The folder of a run: how one is written, read and published, with its controls, whatever class reads it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bathyscope.errors import StoreError, warn
from bathyscope.runs.contents import RunContents, tree_of
from bathyscope.runs.folder import Folder, inner_folders, reason, require_own_folder, verified
from bathyscope.runs.manifest import RUN, FileEntry, Manifest, load_manifest, part_file
from bathyscope.runs.merge import merge
from bathyscope.runs.netcdf import encode
from bathyscope.runs.paired import contradiction, is_of_its_model, read_other_prompts, unlike_options
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE
from bathyscope.runs.publishing import write_without_places
from bathyscope.runs.shards import read_shard

CONTROLS = "controls"
"""The folder of a run in which its controls lie, each a run of its own."""
_R = TypeVar("_R", bound=RunContents)
_OWN = "the controls of a run are folders of its own"


def read_run(kind: type[_R], folder: Path, partial: bool = False) -> _R:
    """Read a run and its controls; those that are compared with nothing are named in a warning.

    Args:
        kind: the class of the run that is returned.
        partial: accept an unfinished run.

    Raises:
        StoreError: no run; a file altered or cut short; unfinished and not ``partial``; nothing there yet.
    """
    run = replace(read_alone(kind, folder, partial), controls=read_controls(kind, folder, partial=partial))
    for label, control in run.controls.items():
        if actual := contradiction(run, label):
            warn(
                f"The control {label} in {str(folder)!r} is {actual}, whatever its folder is called, and nothing is "
                "compared with it."
            )
        elif not is_of_its_model(run, label):
            warn(
                f"The control {label} in {str(folder)!r} is of another model ({control.caption().rstrip('.')}), and "
                "nothing is compared with it."
            )
        elif unlike := unlike_options(run, label):
            warn(
                f"The control {label} in {str(folder)!r} was measured with other options than the run "
                f"({', '.join(unlike)}), and nothing is compared with it."
            )
        elif read_other_prompts(run, label):
            warn(f"The control {label} in {str(folder)!r} read other prompts, and nothing is compared with it.")
    return run


def read_alone(kind: type[_R], folder: Path, partial: bool) -> _R:
    """Read a run without its controls, and without a word on them.

    Args:
        kind: the class of the run that is returned.
        partial: accept an unfinished run.

    Raises:
        StoreError: as for ``read_run``.
    """
    manifest = load_manifest(folder)
    identity, record = manifest.identity, manifest.record
    present = {i: entry for i, entry in record.shards.items() if (folder / entry.file).exists()}
    complete = record.finished is not None and len(present) == len(identity.plan)
    if not complete and (not partial or not present):
        raise StoreError(manifest.unfinished(folder, len(present)))
    datasets = merge([read_shard(folder, e.file, e.sha256, identity.marks(i)) for i, e in present.items()])
    if complete and record.derived is not None:
        # a run-level dataset takes the place of its namesake
        datasets |= read_shard(folder, record.derived.file, record.derived.sha256, identity.marks(None))
    files = {name: verified(folder, entry.file, entry.sha256) for name, entry in record.files.items()}
    return kind(tree_of(datasets), manifest.to_dict(), folder, files)


def read_controls(
    kind: type[_R], folder: Path, *, partial: bool = False, besides: Collection[str] = ()
) -> dict[str, _R]:
    """The controls that are in a run's folder, by name; an unfinished one is left out with a warning.

    Args:
        kind: the class of the controls that are returned.
        partial: as for ``read_run``: also what there is of unfinished ones.
        besides: names of controls that are not read.

    Raises:
        StoreError: a file altered or cut short, or a link in place of a control.
    """
    controls: dict[str, _R] = {}
    for path in control_folders(folder):
        if path.name in besides:
            continue
        if not os.path.lexists(path / RUN.manifest):
            warn(f"The control {path.name} of the run in {str(folder)!r} has no {RUN.manifest}, and is left out.")
        elif partial or load_manifest(path).record.finished is not None:
            # a control has none of its own
            controls[path.name] = read_alone(kind, path, partial)
        else:
            warn(f"The control {path.name} of the run in {str(folder)!r} is not finished, and is left out.")
    return controls


def control_folders(folder: Path) -> list[Path]:
    """List the folders among the controls of a run, by name; nothing where it has none.

    Raises:
        StoreError: a link, a FIFO or the like in place of a control, or of the folder that holds them.
    """
    # a link is refused before anything behind it is looked at
    require_own_folder(folder / CONTROLS, _OWN)
    return inner_folders(folder / CONTROLS, _OWN)


def write_run(run: RunContents, folder: Path) -> None:
    """Write a finished run and its controls into folders that are empty or not there yet.

    Raises:
        StoreError: the run is not finished, or its files are altered; the folder holds something, or cannot be
            written.
    """
    manifest = Manifest.from_tree(run.manifest, "the run's manifest")
    if manifest.record.finished is None:
        raise StoreError("Only finished runs are saved: finish it first, by the survey that began it.")
    with Folder(folder, RUN) as target:
        if target.manifest() is not None:
            raise StoreError(f"There is a run in {str(folder)!r} already; save into another folder.")
        try:
            target.save(_write_files(run, target, manifest).to_dict())
        except OSError as error:
            raise StoreError(
                f"Saving the run to {str(folder)!r} failed: {reason(error)}. Free some space (or make the folder "
                "writable), delete that folder, and save again."
            ) from error
    for label, control in run.controls.items():
        write_run(control, folder / CONTROLS / label)


def _write_files(run: RunContents, folder: Folder, manifest: Manifest) -> Manifest:
    """Write the files of a run, copies of its own or what it holds in memory, and return their manifest."""
    if run.path is not None:
        record = manifest.record
        derived = [] if record.derived is None else [record.derived]
        for entry in (*record.shards.values(), *record.files.values(), *derived):
            folder.write(entry.file, verified(run.path, entry.file, entry.sha256))
        return manifest
    for index, datasets in run.in_memory.items():
        content = encode(datasets, manifest.identity.marks(index))
        manifest = manifest.with_part(index, folder.write(part_file(index), content))
    entries = {}
    for name, content in run.files.items():
        file = PROMPTS_FILE if name == PROMPTS else name
        entries[name] = FileEntry(file, folder.write(file, content))
    return manifest.with_record(files=entries)


def without_places(folder: Path, target: Path) -> Path:
    """Copy a run and its controls without the places of their files; gives the copy."""
    write_without_places(folder, load_manifest(folder), target)
    for control in control_folders(folder):
        write_without_places(control, load_manifest(control), target / CONTROLS / control.name)
    return target

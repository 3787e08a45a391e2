"""A finished run written to a folder, whether it was kept in memory or in another one."""

from collections.abc import Mapping
from pathlib import Path

from bathyscope.errors import StoreError
from bathyscope.store.folder import Folder, reason, verified
from bathyscope.store.manifest import RUN, FileEntry, Manifest
from bathyscope.store.shards import Datasets, encode


def save_folder(
    path: Path,
    manifest: Manifest,
    source: Path | None,
    held: Mapping[int | None, tuple[str, Datasets]],
    files: Mapping[str, tuple[str, bytes]],
) -> None:
    """Writes a run's files and its manifest.

    Args:
        path: a folder that is empty, or not there yet.
        source: the folder that it is copied from; None = it is in memory.
        held: of a run in memory the file's name and content of every shard, and under None of the run-level results.
        files: of a run in memory name → file and content of what it keeps beside them.

    Raises:
        StoreError: the folder holds something, or cannot be written; a file of the source is altered.
    """
    with Folder(path, RUN) as folder:
        if folder.manifest() is not None:
            raise StoreError(f"There is a run in {str(path)!r} already; save into another folder.")
        try:
            if source is None:
                manifest = _written(folder, manifest, held, files)
            else:
                record = manifest.record
                derived = [] if record.derived is None else [record.derived]
                for entry in (*record.shards.values(), *record.files.values(), *derived):
                    folder.write(entry.file, verified(source / entry.file, entry.sha256))
            folder.save(manifest.to_dict())
        except OSError as error:
            raise StoreError(
                f"Saving the run to {str(path)!r} failed: {reason(error)}. Free some space (or make the folder "
                "writable), delete that folder, and save again."
            ) from error


def _written(
    folder: Folder,
    manifest: Manifest,
    held: Mapping[int | None, tuple[str, Datasets]],
    files: Mapping[str, tuple[str, bytes]],
) -> Manifest:
    """The manifest of a run in memory, with the files that it has now."""
    identity = manifest.identity
    shards, derived = {}, None
    for index, (file, datasets) in held.items():
        entry = FileEntry(file, folder.write(file, encode(datasets, identity.marks(index))))
        if index is None:
            derived = entry
        else:
            shards[index] = FileEntry(file, entry.sha256, identity.plan[index])
    kept = {name: FileEntry(file, folder.write(file, content)) for name, (file, content) in files.items()}
    return manifest.with_record(shards=shards, derived=derived, files=kept)

"""A finished run written to a folder, whether it was kept in memory or in another one."""

from collections.abc import Mapping
from pathlib import Path

import xarray as xr

from bathyscope.errors import StoreError
from bathyscope.store.folder import Folder, reason, verified
from bathyscope.store.manifest import RUN, FileEntry, Manifest, part_file
from bathyscope.store.prompts import PROMPTS, PROMPTS_FILE
from bathyscope.store.shards import encode


def save_folder(
    path: Path,
    manifest: Manifest,
    source: Path | None,
    held: Mapping[int | None, Mapping[str, xr.Dataset]],
    files: Mapping[str, bytes],
) -> None:
    """Writes a run's files and its manifest.

    Args:
        path: a folder that is empty, or not there yet.
        source: the folder that it is copied from; None = it is in memory.
        held: of a run in memory every shard, and under None the run-level results.
        files: of a run in memory what it keeps beside them.

    Raises:
        StoreError: the folder holds something, or cannot be written; a file of the source is altered.
    """
    with Folder(path, RUN) as folder:
        if folder.manifest() is not None:
            raise StoreError(f"There is a run in {str(path)!r} already; save into another folder.")
        try:
            if source is None:
                for index, datasets in held.items():
                    content = encode(datasets, manifest.identity.marks(index))
                    manifest = manifest.with_part(index, folder.write(part_file(index), content))
                kept = {}
                for name, content in files.items():
                    file = PROMPTS_FILE if name == PROMPTS else name
                    kept[name] = FileEntry(file, folder.write(file, content))
                manifest = manifest.with_record(files=kept)
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

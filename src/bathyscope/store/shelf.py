"""Where the files of a run are kept while it is written: a folder, or memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import xarray as xr

from bathyscope.errors import StoreError
from bathyscope.store.atomic import PARTIAL, probe, remove_partial, write_atomically
from bathyscope.store.lock import LOCK, OWNER, RunLock
from bathyscope.store.manifest import Manifest
from bathyscope.store.shards import read_shard, write_shard

MANIFEST = "manifest.json"


class Shelf(Protocol):
    """What a writer needs of the place where a run is kept. ``path`` is None in memory."""

    path: Path | None

    def write(self, file: str, datasets: Mapping[str, xr.Dataset]) -> str:
        """Keep canonical datasets as ``file``; gives the SHA-256 (empty in memory)."""
        ...

    def read(self, file: str, sha256: str) -> dict[str, xr.Dataset]:
        """Datasets of ``file``."""
        ...

    def save(self, manifest: Manifest) -> None:
        """Keep the manifest in place of the former one."""
        ...

    def close(self) -> None:
        """Let other processes write here. A second call does nothing."""
        ...


class MemoryShelf:
    """Keeps the datasets themselves; nothing touches the disk."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._files: dict[str, dict[str, xr.Dataset]] = {}

    def write(self, file: str, datasets: Mapping[str, xr.Dataset]) -> str:
        self._files[file] = dict(datasets)
        return ""

    def read(self, file: str, sha256: str) -> dict[str, xr.Dataset]:
        return self._files[file]

    def save(self, manifest: Manifest) -> None:
        """The writer's own manifest is all there is."""

    def close(self) -> None:
        """Nothing is held."""


class FolderShelf:
    """A run's folder, locked for this process from construction to :meth:`close`.

    Raises:
        StoreError: the path is a file, a folder of something else, cannot be written, or is being written.
    """

    def __init__(self, path: Path) -> None:
        _refuse_foreign(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe(path)
            self._lock = RunLock(path)
        except OSError as error:
            raise StoreError(
                f"The folder {str(path)!r} cannot hold a run: {error.strerror or error}. Nothing was "
                "computed. Make it writable (or free some space), or give another folder "
                "(out=..., --out ...)."
            ) from error
        self._folder = path
        self.path: Path | None = path
        remove_partial(path)

    def write(self, file: str, datasets: Mapping[str, xr.Dataset]) -> str:
        return write_shard(self._folder / file, datasets)

    def read(self, file: str, sha256: str) -> dict[str, xr.Dataset]:
        return read_shard(self._folder / file, sha256)

    def manifest(self) -> Manifest | None:
        """The manifest that is there, or None in a folder that begins."""
        return load_manifest(self._folder) if (self._folder / MANIFEST).exists() else None

    def save(self, manifest: Manifest) -> None:
        write_atomically(self._folder / MANIFEST, manifest.to_json())

    def close(self) -> None:
        self._lock.release()


def load_manifest(folder: Path) -> Manifest:
    """The manifest of the run in ``folder``.

    Raises:
        StoreError: there is no run, or its manifest cannot be read.
    """
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"There is no run in {str(folder)!r}: {MANIFEST} cannot be read ({error.strerror}). "
            "Give the folder that a survey wrote (its out=..., --out ...)."
        ) from error
    return Manifest.from_json(content, str(path))


def _refuse_foreign(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise StoreError(
            f"{str(path)!r} is a file; a run needs a folder of its own. Give a new or empty folder "
            "(out=..., --out ...)."
        )
    if not path.is_dir() or (path / MANIFEST).exists():
        return
    names = sorted(entry.name for entry in path.iterdir())
    foreign = [name for name in names if name not in (LOCK, OWNER) and not name.startswith(PARTIAL)]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise StoreError(
            f"The folder {str(path)!r} is no run but not empty either (it holds {', '.join(foreign[:3])}"
            f"{more}). Give a new or empty folder (out=..., --out ...); nothing was written."
        )

"""Writing a run shard by shard, so that it can stop at any moment and go on later with the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import xarray as xr

from bathyscope.errors import StoreError
from bathyscope.store.canonical import canonical
from bathyscope.store.difference import difference, version_difference
from bathyscope.store.manifest import FileEntry, Identity, Manifest, Record, now
from bathyscope.store.merge import check_mergeable, merge
from bathyscope.store.run import DERIVED, Run, assemble, shard_file
from bathyscope.store.shards import verified
from bathyscope.store.shelf import FolderShelf, MemoryShelf, Shelf

_SHOWN_DIFFERENCES = 12


class RunWriter:
    """The one way into a run, in memory or on disk.

    Example:
        ::

            with RunWriter.open(path, identity, record) as writer:
                if not writer.is_finished:
                    for index in writer.missing:
                        writer.write(index, measure(index))
                    return writer.finish(summarise(writer.merged()))
                return writer.run()
    """

    def __init__(self, shelf: Shelf, manifest: Manifest) -> None:
        self._shelf = shelf
        self._manifest = manifest
        self._merged: dict[str, xr.Dataset] | None = None

    @classmethod
    def open(
        cls, path: str | Path | None, identity: Mapping[str, Any], record: Mapping[str, Any] | None = None
    ) -> RunWriter:
        """Begin a run, or go on with the one in ``path``.

        Args:
            path: the run's folder, created where it does not exist; None keeps the run in memory.
            identity: the fields of :class:`~bathyscope.store.manifest.Identity`.
            record: any of versions (default: the installed ones), command (to resume by), notes (JSON).

        Raises:
            StoreError: the folder is unusable or being written by another process; the run there has another
                configuration, is unfinished and has other library versions, or has an altered file.
        """
        asked = Manifest(Identity.from_mapping(identity), Record.begin(record or {}))
        if path is None:
            return cls(MemoryShelf(), asked)
        folder = Path(path).expanduser()
        shelf = FolderShelf(folder)
        try:
            found = shelf.manifest()
            writer = cls(shelf, asked if found is None else _resumed(found, asked, folder))
            if found is None:
                writer._save("the manifest", asked)
        except BaseException:
            shelf.close()
            raise
        return writer

    @property
    def finished(self) -> set[int]:
        """Indices in the plan of the shards that are kept; their checksums held when the run was opened."""
        return set(self._manifest.record.shards)

    @property
    def missing(self) -> list[int]:
        """Indices in the plan of the shards still to be computed, in order."""
        finished = self.finished
        return [i for i in range(len(self._manifest.identity.plan)) if i not in finished]

    @property
    def is_finished(self) -> bool:
        """Nothing is left to compute: :meth:`run` gives the run."""
        return self._manifest.record.finished is not None

    def write(self, index: int, datasets: Mapping[str, xr.Dataset]) -> None:
        """Keep the results of shard ``index``: wholly or, where this raises, not at all.

        Args:
            index: in the plan; its prompts are ``identity["plan"][index]``.
            datasets: measure → dataset whose variables have the dimension ``prompt`` (or are partial sums,
                ``merge="sum"``).

        Raises:
            StoreError: no such shard or it is there already; variables of another form; the disk is full.
        """
        if index not in self.missing:
            raise StoreError(f"Shard {index} is not to be computed; the shards still missing are {self.missing}.")
        first, last = self._manifest.identity.plan[index]
        kept = {name: canonical(dataset, name) for name, dataset in datasets.items()}
        for name, dataset in kept.items():
            check_mergeable(name, dataset, last - first)
        what = f"shard {index} (prompts {first} to {last - 1})"
        entry = replace(self._put(what, shard_file(index), kept), prompts=(first, last))
        shards = {**self._manifest.record.shards, index: entry}
        self._save(what, self._manifest.with_record(shards=shards))

    def merged(self) -> dict[str, xr.Dataset]:
        """All shards as one dataset a measure, prompts in order: what run-level results are computed from.

        Raises:
            StoreError: a shard is missing or altered, or shards disagree in form.
        """
        if self.missing:
            raise StoreError(f"Results are merged once every shard is there; missing: {self.missing}.")
        if self._merged is None:
            entries = [entry for _, entry in sorted(self._manifest.record.shards.items())]
            self._merged = merge([self._shelf.read(entry.file, entry.sha256) for entry in entries])
        return {name: dataset.copy() for name, dataset in self._merged.items()}

    def finish(self, derived: Mapping[str, xr.Dataset]) -> Run:
        """Keep run-level results beside the shards and close the run.

        Args:
            derived: name → dataset of any dimensions; one with a measure's name takes that measure's place.

        Raises:
            StoreError: a shard is missing; a type that cannot be kept; the disk is full.
        """
        self.merged()
        kept = {name: canonical(dataset, name) for name, dataset in derived.items()}
        what = "the run-level results"
        entry = self._put(what, DERIVED, kept)
        self._save(what, self._manifest.with_record(derived=entry, finished=now()))
        run = self.run()
        self.close()
        return run

    def run(self) -> Run:
        """The finished run.

        Raises:
            StoreError: it is not finished.
        """
        entry = self._manifest.record.derived
        if entry is None or not self.is_finished:
            raise StoreError(f"The run is not finished; missing shards: {self.missing}, then finish().")
        manifest = self._manifest
        if self._shelf.path is None:  # no files to list
            manifest = manifest.with_record(shards={}, derived=None)
        derived = self._shelf.read(entry.file, entry.sha256)
        return assemble(self.merged(), derived, manifest, self._shelf.path)

    def close(self) -> None:
        """Let other processes write the run. A second call does nothing."""
        self._shelf.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, what: str, file: str, datasets: Mapping[str, xr.Dataset]) -> FileEntry:
        try:
            return FileEntry(file, self._shelf.write(file, datasets))
        except OSError as error:
            raise self._unwritable(what, error) from error

    def _save(self, what: str, manifest: Manifest) -> None:
        try:
            self._shelf.save(manifest)
        except OSError as error:
            raise self._unwritable(what, error) from error
        self._manifest = manifest

    def _unwritable(self, what: str, error: OSError) -> StoreError:
        done, planned = len(self.finished), len(self._manifest.identity.plan)
        return StoreError(
            f"Writing {what} to {str(self._shelf.path)!r} failed: {error.strerror or error}. "
            f"{done} of {planned} shards are kept and whole; nothing of the failed write is left. "
            "Free some space (or make the folder writable) and run the same command again: it resumes."
        )


def _resumed(found: Manifest, asked: Manifest, path: Path) -> Manifest:
    """The manifest to go on with: of the files that are there and whole."""
    lines = difference(found.identity, asked.identity)
    if lines:
        raise StoreError(
            f"The run in {str(path)!r} belongs to another configuration:\n{_listed(lines)}\n"
            "Either ask for the run's own configuration, and it resumes, or give another folder "
            "(out=..., --out ...)."
        )
    shards = {i: entry for i, entry in found.record.shards.items() if _whole(path, entry)}
    derived = found.record.derived
    complete = len(shards) == len(found.identity.plan) and derived is not None and _whole(path, derived)
    if complete and found.record.finished is not None:
        return found
    lines = version_difference(found.record.versions, asked.record.versions)
    if lines:
        raise StoreError(
            f"The unfinished run in {str(path)!r} was begun with other library versions, and going on with "
            f"these could change its numbers in the last bits:\n{_listed(lines)}\n"
            "Either install the run's versions, and it resumes, or begin anew in another folder "
            f"(out=..., --out ...); what is finished stays readable with "
            f"bathyscope.open({str(path)!r}, partial=True)."
        )
    return found.with_record(shards=shards, derived=None, finished=None)


def _whole(path: Path, entry: FileEntry) -> bool:
    """False where the file is gone (it is computed anew); an altered one is an error, never recomputed."""
    if not (path / entry.file).exists():
        return False
    verified(path / entry.file, entry.sha256)
    return True


def _listed(lines: list[str]) -> str:
    shown = [f"  {line}" for line in lines[:_SHOWN_DIFFERENCES]]
    more = len(lines) - _SHOWN_DIFFERENCES
    return "\n".join([*shown, f"  and {more} more"] if more > 0 else shown)

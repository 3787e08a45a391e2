"""Writing a run shard by shard, so that it can stop at any moment and go on later with the same bits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import xarray as xr

from bathyscope.core.interrupts import uninterrupted
from bathyscope.errors import BathyscopeError, StoreError
from bathyscope.runs.canonical import canonical
from bathyscope.runs.contents import tree_of
from bathyscope.runs.difference import listed, require_same, version_difference
from bathyscope.runs.folder import Folder, folder_path, plain_name, reason, verified
from bathyscope.runs.manifest import RANKS, RUN, FileEntry, Identity, Manifest, Record, load_manifest, now, part_file
from bathyscope.runs.merge import merge, require_by_prompt
from bathyscope.runs.netcdf import encode
from bathyscope.runs.prompts import PROMPTS_FILE
from bathyscope.runs.run import Run
from bathyscope.runs.shards import read_shard

_RECENT: Final = 1 << 24
"""Bytes of contents that stay in memory, at most, from when they are written until they are first read again."""


class RunWriter:
    """The one way into a run, in memory or on disk: ``write`` what is ``missing``, and ``finish``."""

    def __init__(self, folder: Folder | None, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self._in_memory: dict[int | None, dict[str, xr.Dataset]] = {}  # what the files of a run in memory would hold
        self._recent: dict[int | None, dict[str, xr.Dataset]] = {}
        self._files: dict[str, bytes] = {}
        self._merged: dict[str, xr.Dataset] | None = None
        self.lost: frozenset[str] = frozenset()
        """Names of further files that the run had, and that were removed since: to be attached again."""
        self._is_new = False

    @classmethod
    def open(
        cls, path: str | Path | None, identity: Mapping[str, Any], record: Mapping[str, Any] | None = None
    ) -> RunWriter:
        """Begin a run, or go on with the one in ``path``.

        Args:
            path: the run's folder, created where it does not exist; None keeps the run in memory.
            identity: the fields of :class:`~bathyscope.runs.manifest.Identity`.
            record: any of versions (default: the installed ones), command (to resume by), notes (JSON).

        Raises:
            StoreError: the folder is unusable or being written by another process; the run there has another
                configuration, is unfinished and has other library versions, or has an altered file.
        """
        requested = Manifest(Identity.from_mapping(identity), Record.begin(record or {}))
        if path is None:
            return cls(None, requested)
        folder = Folder(folder_path(path, "out"), RUN)
        try:
            require_places(folder, requested.identity)
            if not (folder.path / RUN.manifest).exists():
                writer = cls(folder, requested)
                with writer._writing("the manifest"):
                    writer._save(requested)
                writer._is_new = True
                return writer
            return cls._resuming(folder, requested)
        except BaseException:
            folder.close()
            raise

    @classmethod
    def _resuming(cls, folder: Folder, requested: Manifest) -> RunWriter:
        stored = load_manifest(folder.path)
        resumed = _resumed(stored, requested, folder.path)
        writer = cls(folder, resumed)
        writer.lost = frozenset(stored.record.files.keys() - resumed.record.files.keys())
        return writer

    @property
    def finished(self) -> set[int]:
        """Indices in the plan of the shards that are kept; their checksums held when the run was opened."""
        return set(self._manifest.record.shards)

    @property
    def missing(self) -> list[int]:
        """Indices in the plan of the shards still to be computed, in order."""
        return [i for i in range(len(self._manifest.identity.plan)) if i not in self._manifest.record.shards]

    @property
    def is_finished(self) -> bool:
        """Nothing is left to compute: :meth:`run` gives the run."""
        return self._manifest.record.finished is not None

    def write(self, index: int, datasets: Mapping[str, xr.Dataset]) -> None:
        """Keep the results of shard ``index``: wholly or, where this raises, not at all.

        Args:
            datasets: measure → dataset whose variables have the dimension ``prompt`` (or are partial sums,
                ``merge="sum"``).

        Raises:
            StoreError: no such shard or it is there already; a type that cannot be kept; the disk is full.
            OptionError: results that are not by prompt.
        """
        if index not in self.missing:
            raise StoreError(f"Shard {index} is not to be computed; the shards still missing are {self.missing}.")
        first, last = self._manifest.identity.plan[index]
        stored = {name: canonical(dataset, name) for name, dataset in datasets.items()}
        require_by_prompt(stored, last - first)
        self._keep(f"shard {index} (prompts {first} to {last - 1})", stored, index)

    def attach(self, name: str, file: str, content: bytes) -> None:
        """Keep a further file with the run: ``run.files[name]``. One of that name takes the place of the former."""
        self._files[name] = content
        entry = FileEntry(plain_name(file, deep=False), hashlib.sha256(content).hexdigest())
        with uninterrupted(), self._writing(name):
            if self._folder is not None:
                self._folder.write(file, content)
            self._save(self._manifest.with_record(files={**self._manifest.record.files, name: entry}))

    def note_ranks(self, ranks: int) -> None:
        """Add to the record over how many processes the model is split that computes from now on; 1 = it is whole."""
        notes = self._manifest.record.notes
        before = list(notes.get(RANKS) or ([1] if self.finished else [ranks]))
        numbers = sorted({*before, ranks})
        if numbers != notes.get(RANKS) and numbers != [1]:
            self._save(self._manifest.with_record(notes={**notes, RANKS: numbers}))

    def merged(self) -> dict[str, xr.Dataset]:
        """All shards as one dataset a measure, prompts in order: what run-level results are computed from."""
        if self.missing:
            raise StoreError(f"Results are merged once every shard is there; missing: {self.missing}.")
        # Run-level results and the finished run both read it; shards are decoded once.
        if self._merged is None:
            shards = sorted(self._manifest.record.shards.items())
            self._merged = merge([self._read(entry, index) for index, entry in shards])
        return {name: dataset.copy() for name, dataset in self._merged.items()}

    def finish(self, derived: Mapping[str, xr.Dataset]) -> Run:
        """Store run-level results next to the shards and close the run.

        Args:
            derived: name → dataset of any dimensions; one with a measure's name takes that measure's place.
        """
        self.merged()
        stored = {name: canonical(dataset, name) for name, dataset in derived.items()}
        self._keep("the run-level results", stored, None)
        run = self.run()
        self.close()
        return run

    def run(self) -> Run:
        """The finished run."""
        entry = self._manifest.record.derived
        if entry is None or not self.is_finished:
            raise StoreError(f"The run is not finished; missing shards: {self.missing}, then finish().")
        manifest = self._manifest
        if self._folder is None:  # no files to list
            manifest = manifest.with_record(shards={}, derived=None, files={})
        path = None if self._folder is None else self._folder.path
        # a run-level dataset takes the place of its namesake
        tree = tree_of({**self.merged(), **self._read(entry, None)})
        return Run(tree, manifest.to_dict(), path, self._attached(), in_memory=self._in_memory)

    def close(self) -> None:
        """Let other processes write the run. A second call does nothing."""
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._is_new and isinstance(error, BathyscopeError):
            self._give_up()
        self.close()

    def _give_up(self) -> None:
        """Remove a run that was refused before any shard of it, so that a corrected one may begin in its folder."""
        if self._folder is None or self.finished:
            return
        with uninterrupted(), suppress(OSError):
            # without its manifest the other files are nothing's, so that it goes last
            for entry in self._manifest.record.files.values():
                (self._folder.path / entry.file).unlink(missing_ok=True)
            (self._folder.path / RUN.manifest).unlink(missing_ok=True)

    def _keep(self, what: str, datasets: dict[str, xr.Dataset], index: int | None) -> None:
        """A file and the manifest that lists it, both of them or none also where Ctrl-C comes in between."""
        # Encoded before signals wait: that is the slow part, and may be interrupted.
        content = encode(datasets, self._manifest.identity.marks(index)) if self._folder is not None else b""
        with uninterrupted(), self._writing(what):
            if self._folder is None:
                self._in_memory[index], sha256 = datasets, ""
            else:
                sha256 = self._folder.write(part_file(index), content)
                self._recent.pop(index, None)
                # what was just written need not be decoded: it has the form in which it comes back
                waiting = sum(dataset.nbytes for each in self._recent.values() for dataset in each.values())
                if waiting + len(content) <= _RECENT:
                    self._recent[index] = datasets
            listed = self._manifest.with_part(index, sha256)
            self._save(listed.with_record(finished=now()) if index is None else listed)

    def _read(self, entry: FileEntry, index: int | None) -> dict[str, xr.Dataset]:
        if self._folder is None:
            return self._in_memory[index]
        if index in self._recent:
            verified(self._folder.path, entry.file, entry.sha256)
            return self._recent.pop(index)
        return read_shard(self._folder.path, entry.file, entry.sha256, self._manifest.identity.marks(index))

    def _attached(self) -> dict[str, bytes]:
        if self._folder is None:
            return self._files
        files = self._manifest.record.files
        return {name: verified(self._folder.path, entry.file, entry.sha256) for name, entry in files.items()}

    def _save(self, manifest: Manifest) -> None:
        if self._folder is not None:
            self._folder.save(manifest.to_dict())
        self._manifest = manifest

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            done, planned = len(self.finished), len(self._manifest.identity.plan)
            where = "memory" if self._folder is None else str(self._folder.path)
            raise StoreError(
                f"Writing {what} to {where!r} failed: {reason(error)}. "
                f"{done} of {planned} shards are kept and whole; nothing of the failed write is left. "
                "Free some space (or make the folder writable) and run the same command again: it resumes."
            ) from error


def require_places(folder: Folder, identity: Identity) -> None:
    """Refuse a folder in which something else has the name of a file of a run that is to be computed.

    Raises:
        StoreError: with what has it.
    """
    for name in (PROMPTS_FILE, part_file(None), *map(part_file, range(len(identity.plan)))):
        folder.place(name)


def _resumed(stored: Manifest, requested: Manifest, path: Path) -> Manifest:
    """The manifest to go on with: of the files that are there and whole."""
    require_same(path, RUN, stored.identity, requested.identity)
    record = stored.record
    shards = {i: entry for i, entry in record.shards.items() if _whole(path, entry)}
    files = {name: entry for name, entry in record.files.items() if _whole(path, entry)}
    complete = len(shards) == len(stored.identity.plan) and record.derived is not None and _whole(path, record.derived)
    if complete and record.finished is not None:
        return stored if len(files) == len(record.files) else stored.with_record(files=files)
    # A finished run may be opened with any versions; an unfinished one would hold bits of two.
    lines = version_difference(record.versions, requested.record.versions)
    if lines:
        raise StoreError(
            f"The unfinished run in {str(path)!r} was begun with other library versions, and going on with "
            f"these could change its numbers in the last bits:\n{listed(lines)}\n"
            "Install the library versions of this run to resume it, or start again in another folder "
            f"(out=..., --out ...); what is finished stays readable with "
            f"bathyscope.open({str(path)!r}, partial=True)."
        )
    return stored.with_record(shards=shards, derived=None, finished=None, files=files)


def _whole(path: Path, entry: FileEntry) -> bool:
    """Return False where the file is missing (it is computed again); an altered one is an error."""
    if not (path / entry.file).exists():
        return False
    verified(path, entry.file, entry.sha256)
    return True


def with_note(path: Path, name: str, value: Any) -> dict[str, Any]:
    """Store what is known of a finished run only afterwards among the notes of its record; return the manifest.

    Raises:
        StoreError: the folder is being written by another process, or cannot be written.
    """
    folder = Folder(path, RUN)
    try:
        manifest = load_manifest(path)
        tree = manifest.with_record(notes={**manifest.record.notes, name: value}).to_dict()
        folder.save(tree)
    except OSError as error:
        raise StoreError(
            f"The record of the run in {str(path)!r} could not be written: {reason(error)}. The run is whole; free "
            f"some "
            "space (or make the folder writable) and run the same command again."
        ) from error
    finally:
        folder.close()
    return tree

"""A run that grows: a larger one takes its place in its folder, and what the smaller one has is not computed again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bathyscope.errors import StoreError
from bathyscope.runs.difference import difference, listed, version_difference
from bathyscope.runs.folder import Folder, reason, require_own_folder, verified
from bathyscope.runs.manifest import RUN, FileEntry, Identity, Manifest, library_versions, load_manifest
from bathyscope.runs.shards import Datasets, read_shard
from bathyscope.runs.writer import RunWriter, require_places

GROWING: Final = "growing"
"""The folder of a run in which the larger one lies until it is finished."""
_OF_PROMPTS = ("prompts", "prompt_hash", "dataset", "plan", "tokenizer_hash")
_OURS = re.compile(r"(shard-\d{5}|derived|prompts)(-[0-9a-f]{12})?\.(nc|jsonl)")


@dataclass(frozen=True)
class Growth:
    """A run, and the larger one that is asked for in its place: more measures, more prompts behind its own, or both.

    Args:
        path: the run's folder.
        stored: its manifest.
        requested: the larger one's configuration.
    """

    path: Path
    stored: Manifest
    requested: Identity

    @classmethod
    def of(cls, path: Path, requested: Mapping[str, Any], first: Callable[[int], str], *, grow: bool) -> Growth | None:
        """What has to grow in a folder; None where there is no run yet, or the very one that is asked for.

        Args:
            requested: the fields of ``Identity``.
            first: a number of prompts → the hash of as many of the requested prompts, from the beginning.
            grow: whether a run may grow; where not, one that is none of those that could is left to ``RunWriter``.

        Raises:
            StoreError: the run cannot become what is asked for; or it could, and may not.
        """
        if not (path / RUN.manifest).exists():
            return None
        growth = cls(path, load_manifest(path), Identity.from_mapping(requested))
        if not difference(growth.stored.identity, growth.requested):
            return None
        obstacles = growth._obstacles(first)
        if obstacles and not grow:
            return None
        if obstacles:
            raise StoreError(
                f"The run in {str(path)!r} cannot grow to what is asked for:\n{listed(obstacles)}\n"
                "A run grows by measures, and by prompts that come after its own; all else stays as it is. Ask for "
                "everything that it has and more, or give another folder (out=..., --out ...)."
            )
        if not grow:
            raise StoreError(
                f"The run in {str(path)!r} is a part of what is asked for, which also has {growth}. To compute what "
                "it lacks and keep what it has, give grow=True (--grow); or give another folder (out=..., --out ...)."
            )
        return growth

    def __str__(self) -> str:
        """What is new: ``the measures drop, swap and 2 further prompts``."""
        new = [name for name in self.requested.measures if name not in self.stored.identity.measures]
        more = self.requested.prompts - self.stored.identity.prompts
        parts = [f"the measure{'s' * (len(new) > 1)} {', '.join(new)}"] if new else []
        parts += [f"{more:,} further prompt{'s' * (more > 1)}"] if more else []
        return " and ".join(parts)

    @property
    def shards(self) -> dict[tuple[int, int], int]:
        """[first, last) prompts of the shards that are there → their index."""
        entries = self.stored.record.shards
        return {self.stored.identity.plan[i]: i for i, entry in entries.items() if (self.path / entry.file).exists()}

    def read(self, index: int) -> Datasets:
        """The smaller run's results of a shard.

        Raises:
            StoreError: the file is altered.
        """
        entry = self.stored.record.shards[index]
        return read_shard(self.path, entry.file, entry.sha256, self.stored.identity.marks(index))

    @contextmanager
    def writer(self, record: Mapping[str, Any]) -> Iterator[RunWriter]:
        """The larger run's writer; a run that is finished in it is in the smaller one's place afterwards.

        Until then the folder holds the smaller run as it was. What is computed is in a folder inside of it, and
        where that is interrupted the same survey goes on with it.

        Raises:
            StoreError: other library versions than the run's; the growth to something else is not finished; the
                folder is being written by another process, or cannot be written.
        """
        self._require_versions()
        with Folder(self.path, RUN) as folder:
            require_own_folder(self.path / GROWING, "a run grows in a folder of its own")
            self._require_one_growth()
            require_places(folder, self.requested)
            with RunWriter.open(self.path / GROWING, asdict(self.requested), record) as writer:
                yield writer
                done = writer.is_finished
            if done:
                self._take_place(folder)

    def _obstacles(self, first: Callable[[int], str]) -> list[str]:
        """Why the run is no part of what is asked for, one line each."""
        old, new = asdict(self.stored.identity), asdict(self.requested)
        obstacles = []
        if new["prompts"] < old["prompts"] or first(old["prompts"]) != old["prompt_hash"]:
            obstacles = [f"prompts: the run's {old['prompts']:,} are not the first of the {new['prompts']:,} asked for"]
        if obstacles or new["prompts"] > old["prompts"]:
            # the run's may be token ids alone, and the further ones texts
            of_prompts = _OF_PROMPTS if old["tokenizer_hash"] is None or obstacles else _OF_PROMPTS[:-1]
            new |= {name: old[name] for name in of_prompts}
        # Further measures are no obstacle; those that the run has must have the same options.
        new["measures"] = {name: options for name, options in new["measures"].items() if name in old["measures"]}
        return [*obstacles, *difference(old, new)]

    def _require_versions(self) -> None:
        lines = version_difference(self.stored.record.versions, library_versions())
        if lines:
            raise StoreError(
                f"The run in {str(self.path)!r} was written with other library versions, and growing with these would "
                f"mix numbers that could differ in the last bits:\n{listed(lines)}\n"
                "Install the library versions of this run to let it grow, or survey again in another folder (out=..., "
                "--out ...)."
            )

    def _require_one_growth(self) -> None:
        inside = self.path / GROWING
        if not (inside / RUN.manifest).exists():
            return
        lines = difference(load_manifest(inside).identity, self.requested, "growth")
        if lines:
            raise StoreError(
                f"The run in {str(self.path)!r} is growing to another survey than is asked for:\n{listed(lines)}\n"
                f"Either ask for that one, and it goes on, or delete the folder {str(inside)!r}, which gives it up."
            )

    def _take_place(self, folder: Folder) -> None:
        """Move the larger run's files next to the smaller one's; writing the manifest makes them the run's."""
        inside = self.path / GROWING
        larger = load_manifest(inside)
        record = larger.record

        def moved(entry: FileEntry) -> FileEntry:
            name = Path(entry.file)
            # The smaller run's names are taken until the manifest is written; a repeated move finds equal names.
            new_name = f"{name.stem}-{entry.sha256[:12]}{name.suffix}"
            folder.write(new_name, verified(inside, entry.file, entry.sha256))
            return replace(entry, file=new_name)

        try:
            whole = larger.with_record(
                shards={index: moved(entry) for index, entry in record.shards.items()},
                derived=None if record.derived is None else moved(record.derived),
                files={name: moved(entry) for name, entry in record.files.items()},
                notes={**record.notes, "grown": self._history()},
            )
            # The one moment at which the larger run takes the smaller one's place: before it, nothing of that is gone.
            folder.save(whole.to_dict())
        except OSError as error:
            raise StoreError(
                f"What the run in {str(self.path)!r} has grown to could not be put in its place: {reason(error)}. The "
                "smaller run is as it was, and nothing is lost: free some space (or make the folder writable) and run "
                "the same command again."
            ) from error
        tidy(self.path, whole)

    def _history(self) -> list[Any]:
        """What the run was before, the oldest first."""
        record, identity = self.stored.record, self.stored.identity
        earlier = {"finished": record.finished, "prompts": identity.prompts, "measures": sorted(identity.measures)}
        return [*record.notes.get("grown", []), earlier]


def tidy(path: Path, manifest: Manifest) -> None:
    """Removes what a growth leaves behind: the files that a run had before, and those it was collected in."""
    record = manifest.record
    entries = [*record.shards.values(), *record.files.values(), *([record.derived] if record.derived else [])]
    listed_files = {entry.file for entry in entries}
    for file in path.iterdir():
        if _OURS.fullmatch(file.name) and file.name not in listed_files:
            file.unlink()
    shutil.rmtree(path / GROWING, ignore_errors=True)

"""What a run is (its identity) and how it came about (its record), kept as one JSON file."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import metadata
from itertools import pairwise
from typing import Any

from bathyscope.errors import StoreError, did_you_mean

SCHEMA = 2
READABLE = (1, 2)
_LIBRARIES = ("bathyscope", "torch", "transformers", "numpy", "xarray")


@dataclass(frozen=True)
class Identity:
    """The configuration of a run: whatever could change a number. It must match when a run is resumed.

    Args:
        model: hub name or folder.
        revision: the hub's commit, where there is one.
        weight_hash: of all weights.
        tokenizer_hash: None where prompts are token ids.
        prompt_hash: of all token ids, answers and labels, in order.
        dataset: where the prompts came from, such as ``gsm8k:10``.
        prompts: number of prompts.
        measures: name → all its options, as plain JSON values.
        dtype: of weights and residual stream, such as ``float32``.
        attention: the attention implementation, such as ``sdpa``.
        device: such as ``cpu`` or the name of the accelerator.
        seed: of everything that is sampled.
        preset: a paper's key, or None.
        batch_tokens: tokens a batch may hold, or None for the default.
        plan: the shards as [first, last) ranges of prompts, in order and without gaps.
        noise: how the noise floor is measured.
        n_blocks: L of the model; None in a run of schema 1, which does not tell it.

    Raises:
        StoreError: the plan does not cover the prompts; a value that JSON cannot hold.
    """

    model: str
    revision: str | None
    weight_hash: str
    tokenizer_hash: str | None
    prompt_hash: str
    dataset: str
    prompts: int
    measures: Mapping[str, Any]
    dtype: str
    attention: str
    device: str
    seed: int
    preset: str | None
    batch_tokens: int | None
    plan: tuple[tuple[int, int], ...]
    noise: Any
    n_blocks: int | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, plain(getattr(self, name), name))
        ranges = tuple((int(first), int(last)) for first, last in self.plan)
        object.__setattr__(self, "plan", ranges)
        edges = [0, *(last for _, last in ranges)]
        follows = [first for first, _ in ranges] == edges[:-1] and edges[-1] == self.prompts
        if not ranges or not follows or not _rising(edges):
            raise StoreError(
                f"plan {list(ranges)} does not cut {self.prompts} prompts into shards; allowed: non-empty "
                "[first, last) ranges that begin at 0, follow each other without gaps and end at the number "
                "of prompts."
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Identity:
        """Raises StoreError on a key that is unknown or missing; what earlier schemas lack may be missing."""
        return cls(**_arguments(cls, values, "identity"))


@dataclass(frozen=True)
class FileEntry:
    """A file of the run: its name in the run's folder, SHA-256 of its bytes, its [first, last) prompts."""

    file: str
    sha256: str
    prompts: tuple[int, int] | None = None


@dataclass(frozen=True)
class Record:
    """How a run came about; none of it need match on resuming except ``versions`` (bits may depend on them).

    Args:
        versions: library → version.
        started, finished: UTC, ISO 8601; ``finished`` is None until every result is on the disk.
        command: the command line that resumes the run, where it was begun from one.
        notes: what else a reader of the run should know, as plain JSON values.
        shards: index in the plan → file.
        derived: the file of run-level results.
    """

    versions: Mapping[str, str]
    started: str
    finished: str | None = None
    command: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    shards: Mapping[int, FileEntry] = field(default_factory=dict)
    derived: FileEntry | None = None

    @classmethod
    def begin(cls, given: Mapping[str, Any]) -> Record:
        """A record that starts now; ``given`` may hold versions (default: the installed), command, notes."""
        _check_keys(given, ["versions", "command", "notes"], [], "record")
        versions = given.get("versions")
        return cls(
            versions=plain(library_versions() if versions is None else versions, "versions"),
            started=now(),
            command=given.get("command"),
            notes=plain(given.get("notes") or {}, "notes"),
        )


@dataclass(frozen=True)
class Manifest:
    """Identity and record of a run, as in ``manifest.json``."""

    identity: Identity
    record: Record
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; shards as a list in the order of the plan."""
        record = asdict(self.record)
        record["shards"] = [{"index": i, **asdict(e)} for i, e in sorted(self.record.shards.items())]
        tree = {"schema": self.schema, "identity": asdict(self.identity), "record": record}
        whole: dict[str, Any] = plain(tree, "manifest")
        return whole

    def to_json(self) -> bytes:
        return (json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes, where: str) -> Manifest:
        """Raises StoreError where ``content`` is not a manifest of this schema; ``where`` names the file."""
        try:
            tree = json.loads(content)
            schema = tree["schema"]
            if schema in READABLE:
                return cls(Identity.from_mapping(tree["identity"]), _record_from(tree["record"]), schema)
        except (ValueError, KeyError, TypeError, StoreError) as error:
            raise StoreError(
                f"{where!r} is not a readable manifest of a run ({type(error).__name__}: {error}). "
                "Restore the file from a copy, or give another folder and measure again."
            ) from error
        raise StoreError(
            f"{where!r} is written in schema {schema!r}; this bathyscope reads schemas "
            f"{' and '.join(map(str, READABLE))}. "
            "Open the run with the bathyscope that wrote it (record.versions), or measure again."
        )

    def with_record(self, **changes: Any) -> Manifest:
        """A copy whose record has other values."""
        return replace(self, record=replace(self.record, **changes), schema=SCHEMA)


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers may depend on (read without importing them)."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain(value: Any, where: str) -> Any:
    """``value`` in the types that JSON gives back (tuples become lists, keys text).

    Raises:
        StoreError: a value that JSON cannot hold, named by ``where``.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner, f"{where}.{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, f"{where}[{i}]") for i, inner in enumerate(value)]
    if value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value)):
        return value
    raise StoreError(
        f"{where} is {value!r} ({type(value).__name__}), which a manifest cannot hold; allowed: text, "
        "integers, finite floats, True, False, None, and lists and dicts of them."
    )


def _record_from(tree: Mapping[str, Any]) -> Record:
    values = _arguments(Record, tree, "record")
    shards = {int(entry["index"]): _entry_from(entry) for entry in values.pop("shards")}
    derived = values.pop("derived")
    return Record(**values, shards=shards, derived=None if derived is None else _entry_from(derived))


def _entry_from(entry: Mapping[str, Any]) -> FileEntry:
    prompts = entry["prompts"]
    return FileEntry(entry["file"], entry["sha256"], None if prompts is None else (prompts[0], prompts[1]))


def _arguments(kind: type[Identity] | type[Record], values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """``values`` as arguments of ``kind``; those with a default may be missing."""
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    _check_keys(values, [f.name for f in fields(kind)], needed, what)
    return dict(values)


def _check_keys(values: Mapping[str, Any], allowed: list[str], needed: list[str], what: str) -> None:
    unknown = [key for key in values if key not in allowed]
    missing = [key for key in needed if key not in values]
    if unknown or missing:
        hints = "".join(did_you_mean(key, allowed) for key in unknown)
        raise StoreError(
            f"The {what} of a run has unknown keys {unknown} and lacks {missing}; "
            f"its keys are {', '.join(allowed)}.{hints}"
        )


def _rising(edges: list[int]) -> bool:
    return all(first < last for first, last in pairwise(edges))

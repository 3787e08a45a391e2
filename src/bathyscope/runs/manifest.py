"""What a run is (its identity) and how it came about (its record), kept as one JSON file."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import shlex
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from bathyscope.core.commands import name_command
from bathyscope.core.strict import DAMAGED
from bathyscope.core.text import legible
from bathyscope.errors import OptionError, StoreError, did_you_mean
from bathyscope.measures.registry import MEASURES
from bathyscope.model.identity import ModelIdentity
from bathyscope.options import coerce
from bathyscope.runs.folder import Kind, plain_name, read_manifest, unreadable

RUN = Kind("run", "a survey", "manifest.json", schemas=(1, 2))
SCHEMA = RUN.schemas[-1]
RANKS = "ranks"
"""Note of a record: over how many processes its model was split, each number once; missing where it was whole."""
_LIBRARIES = ("bathyscope", "torch", "transformers", "numpy", "xarray")
TOLD_LATER = ("n_blocks", "config_hash", "adapters", "gguf", "packing", "loops", "states")
"""Fields of an identity that earlier runs do not tell."""

_TEXTS_OR_NONE = ("revision", "tokenizer_hash", "preset", "config_hash", "schedule", "adapters", "packing")
_TEXTS = ("model", "weight_hash", "prompt_hash", "dataset", "dtype", "attention", "device")


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
        config_hash: of the model's configuration; None in runs from before it was kept.
        pace: the rates of the machine by which shards were sized when the run was begun; None = by tokens alone.
        adapters: in the model's layers, and what each does, such as ``default active``; None = none.
        keep_text: whether texts of tokens are kept, among the prompts and in results.
        schedule: the order of the model's blocks that was measured; None = their own.
        gguf: name, SHA-256 and quantisation of the GGUF file that the weights were unpacked from; None = no such file.
        states: layout, boundaries and hash of the files that stored states were read from; None = the model was run.
        packing: how the checkpoint packs the weights, such as ``gptq 4-bit, group 128``, from which they were unpacked;
            None = they are stored plain.
        loops: by step the block that it runs, in a model that runs blocks several times; None = each runs once.

    Raises:
        StoreError: the plan does not cover the prompts; a value of another type, or one that JSON cannot hold.
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
    config_hash: str | None = None
    keep_text: bool = True
    schedule: str | None = None
    adapters: str | None = None
    gguf: Mapping[str, str] | None = None
    packing: str | None = None
    pace: Mapping[str, float] | None = None
    loops: tuple[int, ...] | None = None
    states: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, plain(getattr(self, name), name))
        for names, kind in ((_TEXTS, str), (("prompts", "seed"), int), (("measures",), dict)):
            for name in names:
                _require_type(getattr(self, name), kind, name)
        if self.n_blocks is not None:
            _require_type(self.n_blocks, int, "n_blocks")
        ranges = tuple((int(first), int(last)) for first, last in self.plan)
        object.__setattr__(self, "plan", ranges)
        # Shards without gaps: merged in order they are the prompts, and no result needs their numbers.
        edges = [0, *(last for _, last in ranges)]
        follows = [first for first, _ in ranges] == edges[:-1] and edges[-1] == self.prompts
        if not ranges or not follows or any(first >= last for first, last in pairwise(edges)):
            raise StoreError(
                f"plan {list(ranges)} does not cut {self.prompts} prompts into shards; allowed: non-empty "
                "[first, last) ranges that begin at 0, follow each other without gaps and end at the number "
                "of prompts."
            )

    @property
    def of_model(self) -> ModelIdentity:
        """The model that was measured, apart from prompts and options."""
        return ModelIdentity.of_record(asdict(self))

    @property
    def unpacked_from(self) -> str | None:
        """How the weights were packed that were unpacked to be measured; None = they are stored plain."""
        return self.packing if self.gguf is None else self.gguf["quantisation"]

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Identity:
        """Raises StoreError on a key that is unknown or missing; what earlier schemas lack may be missing."""
        return cls(**_arguments(cls, values, "identity"))

    def digest(self) -> str:
        """SHA-256 of the configuration, the same under later schemas that tell more."""
        # Only what differs from its default: a field that a later version adds leaves earlier digests as they were.
        changed = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()

    def marks(self, index: int | None) -> dict[str, str]:
        """What a file says of itself: the run it belongs to, and which shard it is (None: run-level results)."""
        if index is None:
            return {"kept_run": self.digest(), "kept_part": "run-level results"}
        first, last = self.plan[index]
        return {"kept_run": self.digest(), "kept_part": f"shard {index}: prompts {first} to {last - 1}"}


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
        files: name → further file that belongs to the run, such as its prompts.
    """

    versions: Mapping[str, str]
    started: str
    finished: str | None = None
    command: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    shards: Mapping[int, FileEntry] = field(default_factory=dict)
    derived: FileEntry | None = None
    files: Mapping[str, FileEntry] = field(default_factory=dict)

    @classmethod
    def begin(cls, fields_of_record: Mapping[str, Any]) -> Record:
        """Begin a record now; its fields may be versions (default: the installed ones), command and notes."""
        values = {"versions": library_versions(), **fields_of_record, "started": now()}
        return cls(**_arguments(cls, plain(values, "record"), "record"))


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

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any], where: str) -> Manifest:
        """Raises StoreError where ``tree`` is not the content of a run's manifest; ``where`` names the file."""
        try:
            identity = Identity.from_mapping(tree["identity"])
            _require_kinds(identity)
            return cls(identity, _record_from(tree["record"], identity), tree["schema"])
        except (*DAMAGED, StoreError) as error:
            raise unreadable(where, RUN, error) from error

    def unfinished(self, folder: Path, finished_shards: int) -> str:
        """Describe a run that has only some of its shards: what is missing, and how to resume or read it."""
        identity, command = self.identity, self.record.command
        again = (
            f"repeating the survey of {identity.model!r} on {identity.dataset!r} with out={str(folder)!r}"
            if command is None
            # of a run from elsewhere these are words of others, which somebody may paste into a shell
            else f"running again what began it, with --out {shlex.quote(str(folder))} (in the words of whoever wrote "
            f"this run; read it first): {legible(command)}"
        )
        missing = "" if finished_shards < len(identity.plan) else ", but not the run-level results"
        opened = f"bathyscope.open({str(folder)!r}, partial=True) (--partial)"
        read = f", or read what is there with {opened}" if finished_shards else ""
        joined = f" Parts (part=..., --part) are joined instead ({name_command('join')})." if finished_shards else ""
        return (
            f"The run in {str(folder)!r} is not finished: {finished_shards} of {len(identity.plan)} shards are there"
            f"{missing}. Resume it by {again}{read}.{joined}"
        )

    def with_record(self, **changes: Any) -> Manifest:
        """A copy whose record has other values."""
        return replace(self, record=replace(self.record, **changes), schema=SCHEMA)

    def with_part(self, index: int | None, sha256: str) -> Manifest:
        """A copy that lists the file of shard ``index``; of the run-level results where it is None."""
        if index is None:
            return self.with_record(derived=FileEntry(part_file(None), sha256))
        entry = FileEntry(part_file(index), sha256, self.identity.plan[index])
        return self.with_record(shards={**self.record.shards, index: entry})


def load_manifest(folder: Path) -> Manifest:
    """The manifest of the run in ``folder``; a StoreError where it is missing or cannot be read."""
    return Manifest.from_tree(read_manifest(folder, RUN), str(folder / RUN.manifest))


def part_file(index: int | None) -> str:
    """Name of the file of shard ``index`` in the run's folder; of the run-level results where it is None."""
    return "derived.nc" if index is None else f"shard-{index:05d}.nc"


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
    # Exact types: a subclass (an enum, a NumPy number) would be written as something else than it is.
    if value is None or type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value)):
        return value
    raise StoreError(
        f"{where} is {value!r} ({type(value).__name__}), which a manifest cannot hold; allowed: text, "
        "integers, finite floats, True, False, None, and lists and dicts of them."
    )


def _require_kinds(identity: Identity) -> None:
    """Refuse a stored configuration whose entries are of other kinds than a survey writes, whatever hash it has.

    Raises:
        StoreError: names the entry.
    """
    for name in _TEXTS_OR_NONE:
        if getattr(identity, name) is not None:
            _require_type(getattr(identity, name), str, name)
    for name in ("gguf", "pace", "states"):
        if getattr(identity, name) is not None:
            _require_type(getattr(identity, name), dict, name)
    for name, numbers in (("loops", identity.loops), ("states.boundaries", (identity.states or {}).get("boundaries"))):
        if numbers is not None or (name == "states.boundaries" and identity.states is not None):
            _require_type(numbers, list, name)
            for number in numbers or ():
                _require_type(number, int, f"an entry of {name}")
    for name, values in identity.measures.items():
        # of measures from elsewhere nothing is known until their code runs, which opening a run does not
        if name in MEASURES:
            _require_type(values, dict, f"measures.{name}")
            _require_options(MEASURES[name].options_type, values, f"measures.{name}")


def _require_options(kind: Any, values: Mapping[str, Any], where: str) -> None:
    """Refuse options that no survey could have had; earlier versions may have had other ones."""
    option_names = {option.name for option in fields(kind)}
    try:
        coerce(kind, {name: value for name, value in values.items() if name in option_names}, where)
    except OptionError as error:
        raise StoreError(str(error)) from error


def _record_from(tree: Mapping[str, Any], identity: Identity) -> Record:
    values = _arguments(Record, tree, "record")
    _require_type(values["versions"], dict, "record.versions")
    _require_type(values.get("notes", {}), dict, "record.notes")
    listed = _require_type(values.pop("shards", []), list, "record.shards")
    shards: dict[int, FileEntry] = {}
    for place, listed_entry in enumerate(listed):
        entry = _entry_from(listed_entry, f"record.shards[{place}]")
        index = _require_type(listed_entry.get("index"), int, f"record.shards[{place}].index")
        if index in shards or index not in range(len(identity.plan)) or entry.prompts != identity.plan[index]:
            raise StoreError(f"record.shards[{place}] says it is shard {index!r}, which the plan has otherwise")
        shards[index] = entry
    derived = values.pop("derived", None)
    files = _require_type(values.pop("files", {}), dict, "record.files")
    return Record(
        **values,
        shards=dict(sorted(shards.items())),
        derived=None if derived is None else _entry_from(derived, "record.derived"),
        files={name: _entry_from(file_entry, f"record.files.{name}") for name, file_entry in files.items()},
    )


def _entry_from(entry: Any, where: str) -> FileEntry:
    _require_type(entry, dict, where)
    prompts = entry.get("prompts")
    return FileEntry(
        plain_name(entry.get("file"), deep=False),
        _require_type(entry.get("sha256"), str, f"{where}.sha256"),
        None if prompts is None else (int(prompts[0]), int(prompts[1])),
    )


def _require_type(value: Any, kind: type, where: str) -> Any:
    if type(value) is not kind:
        named = {str: "text", int: "a whole number", dict: "a mapping", list: "a list"}[kind]
        raise StoreError(f"{where} is {value!r}, not {named}")
    return value


def _arguments(kind: type[Identity] | type[Record], values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """``values`` as arguments of ``kind``; those with a default may be missing."""
    allowed = [f.name for f in fields(kind)]
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    unknown = [key for key in values if key not in allowed]
    missing = [key for key in needed if key not in values]
    if unknown or missing:
        hints = "".join(did_you_mean(key, allowed) for key in unknown)
        raise StoreError(
            f"The {what} of a run has unknown keys {unknown} and lacks {missing}; "
            f"its keys are {', '.join(allowed)}.{hints}"
        )
    return dict(values)

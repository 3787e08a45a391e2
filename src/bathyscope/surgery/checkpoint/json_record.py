"""The one JSON record of everything that acts on depth: a plan, a repair, an export, exits, benchmarks.

Every record has the same head: what it is, the conclusion in words, whether it is proved, the model with its hashes,
the prompts with theirs, the schedule as commands take it, and the settings. Its tables follow, each under its own name
with its own columns, so that no row has empty columns of another table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.cycles import LOOPS, cycle_in
from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import DAMAGED, plain, read_json
from bathyscope.errors import StoreError
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.card import RECORD

if TYPE_CHECKING:
    import pandas as pd

Rows = Sequence[Mapping[str, Any]]
_SETTINGS: Final = ("resamples", "level", "seed", "cluster", "clusters")
_MODEL: Final = ("weight_hash", "config_hash", "adapters", "schedule", "precision", "n_blocks")
_DATA: Final = {"data": "name", "hash": "hash", "prompts": "prompts", "tokens": "tokens", "ended": "ended"}


@dataclass(frozen=True)
class Act:
    """What a record says before its tables.

    Args:
        kind: plan, repair, export, exits or evaluation.
        conclusion: what was found, in sentences.
        model: name, hashes, precision and number of blocks; what is not known is left out.
        proved: whether other prompts than those that chose prove the conclusion; None = nothing was to be proved.
        schedule: the order of the blocks as commands take it; None = it is about no single one.
        data: role → name, hash, prompts and tokens.
        settings: what the numbers depend on in addition to model and data.
    """

    kind: str
    conclusion: str
    model: Mapping[str, Any]
    proved: bool | None = None
    schedule: str | None = None
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def record_of(act: Act, **tables: Rows | pd.DataFrame | Mapping[str, Any]) -> dict[str, Any]:
    """Return the record: the head, and each table that has rows under its name."""
    head = {
        "kind": act.kind,
        "conclusion": act.conclusion,
        "proved": act.proved,
        "model": act.model,
        "data": act.data,
        "schedule": act.schedule,
        "settings": act.settings,
        "bathyscope": version("bathyscope"),
    }
    filled = {name: _list_rows(table) for name, table in tables.items()}
    record: dict[str, Any] = plain(
        {name: value for name, value in (*head.items(), *filled.items()) if value is not None and value not in ({}, [])}
    )
    return record


def model_of(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the attributes of a result say of its model; of a looped one also the block of every step."""
    cycle = cycle_in(attrs)
    loops = {} if cycle is None else {LOOPS: list(cycle.blocks)}
    return {"name": str(attrs["model"]), **{name: attrs[name] for name in _MODEL if name in attrs}, **loops}


def data_of(attrs: Mapping[str, Any], roles: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the attributes of a result say of its prompts, by role."""
    return {
        role: {key: attrs[f"{role}_{name}"] for name, key in _DATA.items() if f"{role}_{name}" in attrs}
        for role in roles
        if f"{role}_prompts" in attrs
    }


def settings_of(attrs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the settings among the attributes of a result: those of intervals, and further ones by name."""
    return {name: attrs[name] for name in (*names, *_SETTINGS) if name in attrs}


def export_record(folder: Path) -> dict[str, Any]:
    """Return the record of an exported folder: what it was made of, and its order of blocks.

    Raises:
        StoreError: the folder says nothing of itself that could be read.
    """
    try:
        stored = read_json(read_regular(folder / RECORD, folder))
        schedule = Schedule(tuple(stored["order"]), int(stored["n_blocks"]))
        act = Act(
            kind="export",
            conclusion=f"Wrote {stored['model']} with {len(schedule)} of {schedule.n_blocks} blocks to {folder}.",
            model={"name": stored["model"], "n_blocks": stored["n_blocks"], "settings_hash": stored["settings"]},
            schedule=str(schedule),
        )
        files = {"folder": str(folder), "source_sha256": stored["source"], "changed_sha256": stored["changes"]}
    except DAMAGED as error:
        raise StoreError(f"{str(folder / RECORD)!r} cannot be read ({error}); export again.") from error
    return record_of(act, files={name: value for name, value in files.items() if value})


def _list_rows(table: Rows | pd.DataFrame | Mapping[str, Any]) -> Any:
    """Return rows of plain values; a column that is empty in all rows is left out."""
    if isinstance(table, Mapping):
        return dict(table)
    rows: Sequence[Mapping[Any, Any]] = table if isinstance(table, Sequence) else table.to_dict("records")
    filled = {name for row in rows for name, value in row.items() if not _is_missing(value)}
    return [{name: value for name, value in row.items() if name in filled} for row in rows]


def _is_missing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))

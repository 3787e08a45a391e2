"""Plans read from the folders and the bytes that ``prune`` wrote."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import StoreError
from bathyscope.runs.folder import MOST_DEEP, Kind, folder_path, read_manifest, unreadable, verified
from bathyscope.runs.shards import decode
from bathyscope.surgery.plan.arrays import GROUP, NUMBERS
from bathyscope.surgery.plan.departure import WritingDeparture
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.plan.tables import candidate_table
from bathyscope.surgery.scheduled.speed import Speeds

PRUNING: Final = Kind("pruning", "bathyscope prune", "prune.json", schemas=(1,))
RESULT: Final = "plan.nc"
TASKS: Final = "tasks.nc"
SPEED: Final = "speed.json"
DEPARTURE: Final = "departure.json"


def with_tasks(plan: Plan, content: bytes) -> Plan:
    """Return the plan with what tasks say, from the bytes of their file."""
    groups = decode(content)
    try:
        answered = replace(plan, tasks_data=groups[GROUP])
        _ = answered.text, answered.record()
    except DAMAGED as error:
        raise _damaged(TASKS, error) from error
    return answered


def with_speeds(plan: Plan, content: bytes) -> Plan:
    """Return the plan with its speeds, from the bytes of their file."""
    return _with_record(plan, SPEED, lambda record: {"speeds": Speeds.from_record(record)}, content)


def with_departure(plan: Plan, content: bytes) -> Plan:
    """Return the plan with where the pruned model departs, from the bytes of its file."""
    return _with_record(plan, DEPARTURE, lambda record: {"departure": WritingDeparture.from_record(record)}, content)


def _with_record(plan: Plan, name: str, read: Callable[[Any], dict[str, Any]], content: bytes) -> Plan:
    """Return the plan with what a further file says; everything that is said of it is read once."""
    try:
        plan = replace(plan, **read(read_json(content, MOST_DEEP)))
        _ = plan.text, plan.record()
    except DAMAGED as error:
        raise unreadable(name, PRUNING, error) from error
    return plan


def decoded(content: bytes, model: Any = None) -> Plan:
    """Return the plan in the bytes of such a file.

    Raises:
        StoreError: it holds no plan, or one whose entries are of other kinds.
    """
    groups = decode(content)
    try:
        data = groups[GROUP]
        # a file may hold truth values as numbers
        if not np.isin(data["indistinguishable"].values, (0, 1)).all():
            raise TypeError("its indistinguishable holds no truth values")
        plan = Plan(data.assign(indistinguishable=data["indistinguishable"].astype(bool)), model)
        for name, value in plan.data.attrs.items():
            if name in NUMBERS and not isinstance(value, int | float):
                raise TypeError(f"its {name} is {elided(repr(value), 40)}")
        # everything that is said of a plan is read once
        for role in ("calibration", "test"):
            plan.source(role)
        _ = plan.text, repr(plan), plan.before_after, plan.record(), candidate_table(plan.data).cells()
    except DAMAGED as error:
        raise _damaged(RESULT, error) from error
    return plan


def _damaged(name: str, error: Exception) -> StoreError:
    return StoreError(
        f"{name} is no whole file of a plan ({type(error).__name__}: {elided(error, 80)}). Restore it from a copy, or "
        "prune again in another folder."
    )


def is_plan(folder: object) -> bool:
    """Return whether a folder is one that ``bathyscope prune`` wrote."""
    # os.path, not Path, which raises where a text is longer than a file's name may be
    return isinstance(folder, str | Path) and os.path.isfile(os.path.join(os.path.expanduser(folder), PRUNING.manifest))


def open_plan(folder: str | Path) -> Plan:
    """Open the plan in a folder that ``bathyscope prune --out`` wrote.

    Args:
        folder: what ``prune(out=)`` wrote.

    Raises:
        OptionError: ``folder`` is no path.
        StoreError: no plan, one that is not finished, or a damaged file.

    Example:
        >>> _ = bathyscope.prune("model", "prompts.jsonl", "test.jsonl", drop=1, resamples=200, out="runs/plan")
        >>> bathyscope.open("runs/plan").schedule.n_blocks
        4
    """
    path = folder_path(folder)
    # The manifest lists a file only after it was written as a whole.
    files = read_manifest(path, PRUNING).get("files")
    if not isinstance(files, dict) or RESULT not in files:
        raise StoreError(f"The pruning in {str(path)!r} is not finished. Give the same command again to resume it.")
    plan = replace(decoded(verified(path, RESULT, files[RESULT], PRUNING.noun)), stored_in=path)
    if SPEED in files:
        plan = with_speeds(plan, verified(path, SPEED, files[SPEED], PRUNING.noun))
    if DEPARTURE in files:
        plan = with_departure(plan, verified(path, DEPARTURE, files[DEPARTURE], PRUNING.noun))
    return with_tasks(plan, verified(path, TASKS, files[TASKS], PRUNING.noun)) if TASKS in files else plan

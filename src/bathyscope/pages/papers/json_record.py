"""One file with all numbers of a reproduction, and its score against papers and predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.foreign import read_regular
from bathyscope.core.output import write_output
from bathyscope.core.own_files import require_own
from bathyscope.core.paths import require_writable
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.errors import StoreError
from bathyscope.surveying.papers.predictions import TABLE_MARGIN, numbers, prediction
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

if TYPE_CHECKING:
    from bathyscope.pages.papers.reproduce import Reproduced

VERSION: Final = 1
_LIBRARIES: Final = ("bathyscope", "torch", "transformers")
_SETTINGS: Final = ("dtype", "attention", "device", "prompts", "preset", "gguf", "packing")
_NUMBERS: Final = frozenset({"value", "ci_low", "ci_high"})
_NUMBER_KEYS: Final = frozenset({"model", "source", "work", "quantity"}) | _NUMBERS


@dataclass(frozen=True)
class Score:
    """One number of a record, next to what was published and predicted.

    Args:
        published: the paper's number; None = not published.
        agrees: whether both numbers are equal; None = nothing to compare.
        predicted_low, predicted_high: bounds of the prediction; None = no prediction.
        as_predicted: whether the number lies within the bounds; None = no bounds.
    """

    model: str
    work: str
    quantity: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    published: int | None
    agrees: bool | None
    predicted_low: float | None
    predicted_high: float | None
    as_predicted: bool | None


def record(reproduced: Reproduced) -> dict[str, Any]:
    """Return revisions, hashes, versions and numbers of all runs of a reproduction."""
    # a record is scored without what measures
    from bathyscope.runs.run import Run

    runs, rows = [], []
    for outcome in reproduced.outcomes:
        if not isinstance(outcome.result, Run):
            continue
        run, named = outcome.result, outcome.cell.models[0]
        identity = run.identity
        place = {"model": named.name, "source": named.published or named.source, "work": outcome.cell.work.name}
        hashes = {key: getattr(identity, key) for key in ("revision", "weight_hash", "config_hash", "prompt_hash")}
        settings = {key: getattr(identity, key) for key in _SETTINGS}
        runs.append({**place, **hashes, **settings})
        datasets = {measure: run[measure] for measure in run.measures}
        rows += [
            {**place, "quantity": key, "value": _keep_finite(value), "ci_low": None, "ci_high": None}
            for key, value in numbers(datasets).items()
        ]
    for pairs in reproduced.entries.values():
        for pair in pairs:
            if pair.blocks is not None:
                sources = [
                    named.published or named.source
                    for outcome in reproduced.outcomes
                    for named in outcome.cell.models
                    if named.name == pair.model
                ]
                place = {"model": pair.model, "source": sources[0] if sources else pair.model, "work": pair.data}
                ends = {"ci_low": pair.ci_low, "ci_high": pair.ci_high}
                rows.append({**place, "quantity": pair.quantity, "value": pair.measured, **ends})
    return {
        "record": VERSION,
        "target": reproduced.target.paper.paper,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {library: version(library) for library in _LIBRARIES},
        "runs": runs,
        "numbers": rows,
    }


def check_record(file: Path) -> None:
    """Refuse a file that cannot be written, or that is there and is no record of whatever version.

    Raises:
        StoreError: it is one of these.
    """
    require_writable(file)
    require_own(file, "a record", _is_record)


def _is_record(file: Path) -> bool:
    content = read_json(read_regular(file))
    return isinstance(content, dict) and "record" in content and content.get("target") in REPRODUCTIONS


def write_record(reproduced: Reproduced, file: Path) -> None:
    """Write ``record`` as JSON.

    Raises:
        StoreError: the file cannot be written.
    """
    text = json.dumps(record(reproduced), indent=1, allow_nan=False) + "\n"
    write_output(file, text.encode("utf-8"))


def read_record(file: Path) -> dict[str, Any]:
    """Return a record that this version can read.

    Raises:
        StoreError: no such file, no record, or one of another version.
    """
    try:
        content = read_json(read_regular(file))
    except OSError as error:
        raise StoreError(
            f"{file} cannot be read: {error.strerror or error}. Give a file that --record wrote."
        ) from error
    except DAMAGED as error:
        raise StoreError(f"{file} is not JSON. Give a file that reproduce --record wrote.") from error
    if not isinstance(content, dict) or isinstance(content.get("record", {}), Mapping):
        raise StoreError(f"{file} is not a record of a reproduction. Give a file that reproduce --record wrote.")
    if content["record"] != VERSION:
        raise StoreError(
            f"{file} is a record of version {content['record']!r}; this bathyscope reads version {VERSION}. "
            "Write it again with reproduce --record."
        )
    rows = content.get("numbers")
    whole = isinstance(rows, list) and all(isinstance(row, dict) and _is_number_row(row) for row in rows)
    target = content.get("target")
    if not isinstance(target, str) or target not in REPRODUCTIONS or not whole:
        raise StoreError(f"{file} is a damaged record: its target or its numbers cannot be read. Write it again.")
    return content


def _is_number_row(row: Mapping[str, Any]) -> bool:
    """Whether an entry has all that a number of a record has, each of its kind."""
    if not set(row) >= _NUMBER_KEYS:
        return False
    are_texts = all(isinstance(row[name], str) for name in _NUMBER_KEYS - _NUMBERS)
    numbers = [row[name] for name in _NUMBERS]
    return are_texts and all(number is None or type(number) in (int, float) for number in numbers)


def score(file: Path) -> list[Score]:
    """Return every number of a record next to what was published and predicted.

    Raises:
        StoreError: as ``read_record``.
    """
    content = read_record(file)
    return [_score_row(content["target"], row) for row in content["numbers"]]


def _score_row(paper: str, row: Mapping[str, Any]) -> Score:
    value, quantity, work = row["value"], str(row["quantity"]), str(row["work"])
    tables = REPRODUCTIONS[paper].tables.values()
    values = (
        table.published(row["source"], quantity, work)
        for table in tables
        if quantity in table.quantities and work in (table.data or ("",))
    )
    published = next((number for number in values if number is not None), None)
    expected = prediction(paper, str(row["source"]).rpartition("/")[2], work, quantity)
    low, high = (None, None) if expected is None else (expected.low, expected.high)
    if published is not None and quantity in TABLE_MARGIN:
        low, high = published - TABLE_MARGIN[quantity], published + TABLE_MARGIN[quantity]
    return Score(
        model=str(row["model"]),
        work=work,
        quantity=quantity,
        value=value,
        ci_low=row["ci_low"],
        ci_high=row["ci_high"],
        published=published,
        agrees=None if published is None else value == published,
        predicted_low=low,
        predicted_high=high,
        as_predicted=None if low is None or high is None else value is not None and low <= value <= high,
    )


def score_rows(scores: list[Score]) -> list[dict[str, Any]]:
    """Return rows for tables, CSV and JSON."""
    return [asdict(entry) for entry in scores]


def _keep_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

"""What a reproduction gives as plain rows: numbers of tables, files of figures, and what could not be measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bathyscope.pages.papers.cells import Outcome
from bathyscope.pages.papers.figures import Drawn
from bathyscope.pages.papers.tables import TableEntry
from bathyscope.surveying.papers.reproduction import Figure, Reproduction

Rows = list[dict[str, Any]]


def pair_rows(pairs: Iterable[TableEntry]) -> Rows:
    """Return one row for each number of a table."""
    names = ("model", "data", "quantity", "blocks", "measured", "ci_low", "ci_high", "crossing_share", "published")
    return [{name: getattr(pair, name) for name in (*names, "agrees", "in_interval", "reason")} for pair in pairs]


def drawn_rows(files: Iterable[Drawn]) -> Rows:
    """Return one row for each file of a figure."""
    return [
        {
            "figure": file.figure.label,
            "shows": file.figure.shows,
            "models": list(file.models),
            "data": list(file.data),
            "file": str(file.path),
        }
        for file in files
    ]


def figure_rows(paper: Reproduction, figures: Iterable[Figure]) -> Rows:
    """Return what each figure shows and what it takes."""
    rows: Rows = []
    for figure in figures:
        works = [paper.work(name) for name in figure.data]
        data = [
            work.data if isinstance(work.data, str) else f"{len(work.data)} questions with answers" for work in works
        ]
        takes_models = not figure.needs and any(work.verb != "depth_performance" for work in works)
        rows.append(
            {
                "figure": figure.label,
                "shows": figure.shows,
                "data": data,
                "draws": list(figure.draws),
                "models": list(figure.models or (paper.models if takes_models else ())),
                "needs": figure.needs,
            }
        )
    return rows


def missing_rows(
    outcomes: Iterable[Outcome], tables: Mapping[str, Sequence[TableEntry]], lacking: Iterable[Figure], is_table: bool
) -> Rows:
    """Return what could not be measured, one row a reason, since one checkpoint or data set may be behind many.

    Args:
        lacking: figures that need what nobody can load.
        is_table: whether a table was requested, whose sizes have reasons of their own.
    """
    causes = [
        (outcome.cell.name, outcome.cell.work.name, outcome.reason) for outcome in outcomes if outcome.result is None
    ]
    if is_table:
        causes += [
            (pair.model, "sizes", pair.reason)
            for pairs in tables.values()
            for pair in pairs
            if pair.reason and not pair.data
        ]
    row_by_reason: dict[str, dict[str, Any]] = {}
    for model, data, reason in causes:
        row = row_by_reason.setdefault(reason, {"models": [], "data": [], "reason": reason})
        for column, name in (("models", model), ("data", data)):
            if name not in row[column]:
                row[column].append(name)
    needed = [
        {"models": [], "data": list(figure.data), "reason": f"Figure {figure.label} needs {figure.needs}."}
        for figure in lacking
    ]
    return [*row_by_reason.values(), *needed]


def missing_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what could not be measured as sentences."""
    return [
        f"Not measured: {', '.join(row['models'])} on {', '.join(row['data'])}. {row['reason']}"
        if row["models"]
        else f"Not drawn: {row['reason']}"
        for row in rows
    ]


def flatten(rows: Rows) -> Rows:
    """Return rows with their lists as texts, for files that hold no lists."""
    return [
        {name: "; ".join(value) if isinstance(value, list) else value for name, value in row.items()} for row in rows
    ]


def summarise_pairs(pairs: Sequence[TableEntry]) -> str:
    """Return how many of the published numbers were measured, agree, and are in the measured intervals."""
    compared = [pair for pair in pairs if pair.agrees is not None]
    if not compared:
        return "No measured number has a published counterpart."
    equal = sum(pair.agrees is True for pair in compared)
    covered = sum(pair.in_interval is True for pair in compared if not pair.agrees)
    return (
        f"{equal} of {len(compared)} results are as published; of the {len(compared) - equal} that differ, "
        f"{covered} have the published number in their interval."
    )

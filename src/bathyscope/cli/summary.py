"""What a survey and ``show`` say about a run at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bathyscope.cli.console import write, write_table

if TYPE_CHECKING:
    from bathyscope.store.run import Run


def variables(run: Run) -> list[dict[str, str]]:
    """Every variable of every measure: its dimensions, units and meaning."""
    return [
        {
            "measure": measure,
            "variable": str(name),
            "dimensions": " × ".join(str(dim) for dim in values.dims),
            "units": str(values.attrs.get("units", "")),
            "meaning": str(values.attrs.get("long_name", "")),
        }
        for measure in run.measures
        for name, values in run[measure].data_vars.items()
    ]


def summary(run: Run) -> dict[str, Any]:
    """A run for machines: where it is, what it is of, what it holds, and its effective depth, if any."""
    from bathyscope.report.table import MEASURE, effective_depth_rows

    held: dict[str, list[str]] = {}
    for row in variables(run):
        held.setdefault(row["measure"], []).append(row["variable"])
    return {
        "run": None if run.path is None else str(run.path),
        "verdict": run.headline() or None,
        "caption": run.caption(),
        "model": run.identity.model,
        "dataset": run.identity.dataset,
        "prompts": run.identity.prompts,
        "measures": held,
        "effective_depth": effective_depth_rows(run) if MEASURE in run.measures else None,
    }


def write_headline(run: Run) -> None:
    """What is read first of a run: its verdict, and what it is of."""
    if run.headline():
        write(run.headline())
    write(run.caption())


def print_summary(run: Run) -> None:
    """A run for people: its verdict and caption, the effective-depth table or else what it holds, and its path."""
    from bathyscope.report.table import MEASURE, effective_depth_table

    write_headline(run)
    if MEASURE in run.measures:
        write_table(effective_depth_table(run))
    else:
        for measure, names in summary(run)["measures"].items():
            write(f"  {measure}: {', '.join(names)}")
    write(f"Run: {run.path}")

"""What a survey and ``show`` say about a run at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bathyscope.cli.console import write, write_table

if TYPE_CHECKING:
    from bathyscope.runs.run import Run


def summary(run: Run) -> dict[str, Any]:
    """A run for machines: where it is, what it is of, what it holds, and its effective depth, if any."""
    from bathyscope.pages.table import MEASURE, effective_depth_rows

    return {
        "run": None if run.path is None else str(run.path),
        "verdict": run.headline() or None,
        "caption": run.caption(),
        "model": run.identity.model,
        "dataset": run.identity.dataset,
        "prompts": run.identity.prompts,
        "measures": {name: list(map(str, run[name].data_vars)) for name in run.measures},
        "effective_depth": effective_depth_rows(run) if MEASURE in run.measures else None,
    }


def write_headline(run: Run) -> None:
    """What is read first of a run: its verdict, and what it is of."""
    if run.headline():
        write(run.headline())
        for detail in run.verdict.details:
            write(detail)
    write(run.caption())


def print_summary(run: Run) -> None:
    """A run for people: its verdict and caption, the effective-depth table or else what it holds, and its path."""
    from bathyscope.pages.table import MEASURE

    write_headline(run)
    if MEASURE in run.measures:
        write_effective_depth(run)
    else:
        for measure, names in summary(run)["measures"].items():
            write(f"  {measure}: {', '.join(names)}")
    write(f"Run: {run.path}")


def write_effective_depth(run: Run) -> None:
    """Every estimate with its interval, 80 columns wide, and the reasons for missing numbers below them."""
    from bathyscope.pages.table import LEGEND, depth_cells, depth_headings, effective_depth_rows, remarks

    rows = effective_depth_rows(run)
    caption = [LEGEND, *remarks(rows)]
    write_table(depth_headings(run), [depth_cells(row) for row in rows], "Effective depth", caption)

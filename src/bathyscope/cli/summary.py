"""What a survey and ``show`` print of a run for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bathyscope.cli.printing import TextTable, View

if TYPE_CHECKING:
    from bathyscope.runs.run import Run


def headline_lines(run: Run) -> list[str]:
    """Return what is read first of a run: its verdict with details, why it ended, and what it is of."""
    headline = run.headline()
    stopped = [run.stopped] if run.stopped else []
    return [*([headline, *run.verdict.details] if headline else []), *stopped, run.caption()]


def run_view(run: Run) -> View:
    """Return a run's verdict and caption, the effective-depth table or else what it holds, and its path."""
    from bathyscope.runs.depth_rows import MEASURE

    # Effective depth is the number that most readers came for; without it the measures are listed.
    if MEASURE in run.measures:
        contents: list[TextTable | str] = [effective_depth_table(run)]
    else:
        contents = [f"  {measure}: {', '.join(names)}" for measure, names in run.record()["measures"].items()]
    return View([*contents, f"Run: {run.path}"], conclusion=headline_lines(run))


def effective_depth_table(run: Run) -> TextTable:
    """Return every estimate with its interval, 80 columns wide, and the reasons for missing numbers below them."""
    from bathyscope.runs.depth_table import LEGEND, depth_cells, depth_headings, effective_depth_rows, remarks

    rows = effective_depth_rows(run)
    cells = [depth_cells(row) for row in rows]
    return TextTable(depth_headings(run), cells, "Effective depth", [LEGEND, *remarks(rows)])

"""What a survey and ``show`` print of a run for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bathyscope.cli.printing import View
from bathyscope.core.tables import TextTable

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
    contents: list[TextTable | str] = [*run.tables()]
    if MEASURE not in run.measures:
        contents = [f"  {measure}: {', '.join(names)}" for measure, names in run.record()["measures"].items()]
    return View([*contents, f"Run: {run.path}"], conclusion=headline_lines(run))

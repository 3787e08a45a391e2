"""``bathyscope badge``: a run as a badge of one line. Needs no model library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Partial, make_app, open_run
from bathyscope.cli.console import say, write

_EXAMPLES = """\
Examples:
  bathyscope badge runs/qwen --out depth.svg
  bathyscope badge runs/qwen > depth.svg"""


def badge_command(
    run: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    partial: Partial = False,
) -> int:
    """Draw a run's depth as a badge, an SVG of one line for a README or a model card.

    Args:
        run: folder that a survey wrote.
        out: the SVG file; not given = standard output.
    """
    content = bathyscope.badge(open_run(run, partial), out)
    if out is None:
        write(content)
    else:
        say(f"Written: {out}")
    return 0


app = make_app(badge_command, _EXAMPLES)

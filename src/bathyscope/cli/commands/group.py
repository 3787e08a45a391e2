"""``bathyscope compare group``: depth on each group of a run's prompts, and how the groups differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.analysis.options import GroupLabel, GroupOptions
from bathyscope.cli.arguments import (
    Partial,
    Picture,
    ResultFormat,
    RunFolder,
    check_picture,
    make_app,
    open_run,
    write_picture,
)
from bathyscope.cli.printing import print_result

if TYPE_CHECKING:
    pass

_EXAMPLES = """\
Examples:
  bathyscope compare group runs/deep --by solved_by
  bathyscope compare group runs/mquake --by hops --estimators settle,centre_of_mass --out hops.png
  bathyscope compare group runs/deep --by solved_by --format csv > groups.csv"""


def group_command(
    run: RunFolder,
    /,
    *,
    by: GroupLabel,
    format: ResultFormat = "table",
    out: Picture = None,
    partial: Partial = False,
    **options: Any,
) -> int:
    """Compare groups of prompts."""
    check_picture(out)
    result = bathyscope.group(open_run(run, partial), by, **options)
    print_result(result, format)
    write_picture(out, result)
    return 0


app = make_app(group_command, _EXAMPLES, GroupOptions)

"""``bathyscope compare group``: depth on each group of a run's prompts, and how the groups differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.analysis.options import GroupOptions
from bathyscope.cli.arguments import Partial, Picture, ResultFormat, check_picture, make_app, open_run, write_picture
from bathyscope.cli.printing import TextTable, View, print_result

if TYPE_CHECKING:
    import xarray as xr

_EXAMPLES = """\
Examples:
  bathyscope compare group runs/deep --by solved_by
  bathyscope compare group runs/mquake --by hops --estimators settle,centre_of_mass --out hops.png
  bathyscope compare group runs/deep --by solved_by --format csv > groups.csv"""


def group_command(
    run: str,
    /,
    *,
    by: str,
    format: ResultFormat = "table",
    out: Picture = None,
    partial: Partial = False,
    **options: Any,
) -> int:
    """Compare groups of prompts.

    Args:
        run: folder that a survey wrote.
        by: label of the prompts that makes the groups, such as solved_by, level or hops; or dataset.
    """
    check_picture(out)
    result = bathyscope.group(open_run(run, partial), by, **options)
    print_result(result, format, lambda: _view(result.data))
    write_picture(out, "grouped", result.data)
    return 0


def _view(data: xr.Dataset) -> View:
    from bathyscope.analysis.depths.tables import GROUP_LEGEND, group_remarks, group_rows, pair_rows

    headings, rows = group_rows(data)
    blocks: list[TextTable | str] = [TextTable(headings, rows, f"Depth by {data.attrs['by']}", group_remarks(data))]
    for pair in data["pair"].values.tolist():
        headings, rows = pair_rows(data, pair)
        blocks += ["", TextTable(headings, rows, pair)]
    return View([*blocks, GROUP_LEGEND])


app = make_app(group_command, _EXAMPLES, GroupOptions)

"""``bathyscope group``: depth on each group of a run's prompts, and how the groups differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.cli.arguments import Partial, Picture, Records, as_app, check_picture, write_picture
from bathyscope.cli.console import Format, write, write_data, write_table

if TYPE_CHECKING:
    import xarray as xr

_EXAMPLES = """\
Examples:
  bathyscope group runs/deep --by solved_by
  bathyscope group runs/mquake --by hops --estimators settle,centre_of_mass --out hops.png
  bathyscope group runs/deep --by solved_by --format csv > groups.csv"""


def group_command(
    run: str, /, *, by: str, format: Records = "table", out: Picture = None, partial: Partial = False, **given: Any
) -> int:
    """Compare groups of prompts.

    Args:
        run: folder that a survey wrote.
        by: label of the prompts that makes the groups, such as solved_by, level or hops; or dataset.
    """
    check_picture(out)
    found = bathyscope.grouped(bathyscope.open(run, partial=partial), by, **given)
    _show(found, format)
    write_picture(out, "grouped", found)
    return 0


def _show(found: xr.Dataset, format_: Format) -> None:
    from bathyscope.pages.comparison.table import GROUP_LEGEND, group_remarks, group_rows, pair_rows
    from bathyscope.runs.table import tidy

    if write_data(tidy(found), format_):
        return
    write_table(*group_rows(found), title=f"Depth by {found.attrs['by']}", caption=group_remarks(found))
    for pair in found["pair"].values.tolist():
        write("")
        write_table(*pair_rows(found, pair), title=pair)
    write(GROUP_LEGEND)


app = as_app(group_command, _EXAMPLES, "bathyscope:grouped")

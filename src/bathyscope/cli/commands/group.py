"""``bathyscope group``: depth on each group of a run's prompts, and how the groups differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from bathyscope.cli.console import Format, say, write, write_data, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.comparison import grouped
from bathyscope.store.run import open_run
from bathyscope.store.table import tidy

if TYPE_CHECKING:
    import xarray as xr


_EXAMPLES = """\
Examples:
  bathyscope group runs/deep --by solved_by
  bathyscope group runs/mquake --by hops --estimators settle,centre_of_mass --out hops.png
  bathyscope group runs/deep --by solved_by --format csv > groups.csv"""


def group_command(
    run: str,
    /,
    *,
    by: str,
    format: Format = "table",
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    partial: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Compare groups of prompts.

    Args:
        run: folder that a survey wrote.
        by: label of the prompts that makes the groups, such as solved_by, level or hops; or dataset.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        out: also write a figure (.png, .svg, .pdf).
        partial: read an unfinished run: the prompts that are done.
    """
    from bathyscope.report.export import write_output
    from bathyscope.report.render import check_format, render

    if out is not None:
        check_format(out.suffix.removeprefix("."))
    found = grouped(open_run(run, partial=partial), by, **given)
    _show(found, format)
    if out is not None:
        from bathyscope.report.figures.grouped import draw

        write_output(out, render(draw(found), out.suffix.removeprefix(".")))
        say(f"Written: {out}")
    return 0


def _show(found: xr.Dataset, format_: Format) -> None:
    if not write_data(tidy(found), format_):
        _show_tables(found)


def _show_tables(found: xr.Dataset) -> None:
    from bathyscope.report.comparison.groups import LEGEND, difference_table, value_table

    write_table(value_table(found))
    for pair in found["pair"].values.tolist():
        write("")
        write_table(difference_table(found, pair))
    write(LEGEND)


app = App(name="group", help_epilogue=_EXAMPLES)
app.default(command(group_command, flags(options_of(grouped, leave_out=("run", "by")))))

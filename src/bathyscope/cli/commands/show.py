"""``bathyscope show``: the results of a run on standard output. Needs no model library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bathyscope.cli.console import Format, write, write_data, write_table
from bathyscope.cli.summary import variables, write_headline
from bathyscope.store.run import Run, open_run

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLES = """\
Examples:
  bathyscope show runs/qwen
  bathyscope show runs/qwen --measure effective_depth
  bathyscope show runs/qwen --measure lens --format csv > lens.csv
  bathyscope show runs/qwen --measure effective_depth --format json | jq ."""

app = App(name="show", help_epilogue=_EXAMPLES)


@app.default
def show(
    run: str,
    /,
    *,
    measure: Annotated[str | None, Parameter(show_default=False)] = None,
    format: Format = "table",
    partial: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Print results.

    Args:
        run: folder that a survey wrote.
        measure: which measure; without it, everything the run holds is listed.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        partial: read an unfinished run: the prompts that are done.
    """
    opened = open_run(run, partial=partial)
    if measure is None:
        _show_contents(opened, format)
    elif format == "table" and measure == "effective_depth":
        from bathyscope.report.table import effective_depth_table

        write_table(effective_depth_table(opened))
    else:
        _show_rows(opened.to_dataframe(measure), format)
    return 0


def _show_contents(run: Run, format_: Format) -> None:
    rows = variables(run)
    if not write_data(rows, format_):
        write_headline(run)
        table = Table(box=SIMPLE_HEAD)
        for heading in rows[0]:
            table.add_column(heading.capitalize(), overflow="fold")
        for before, row in zip([{}, *rows], rows):
            cells: dict[str, Any] = dict(row)
            if before.get("measure") == row["measure"]:
                cells["measure"] = ""
            table.add_row(*cells.values())
        write_table(table)


def _show_rows(frame: pd.DataFrame, format_: Format) -> None:
    if not write_data(frame, format_):
        write(frame.to_string(index=False, na_rep="–"))

"""``bathyscope show``: the results of a run on standard output. Needs no model library."""

from __future__ import annotations

from itertools import pairwise

from cyclopts import App

import bathyscope
from bathyscope.cli.arguments import Given, Partial, Records
from bathyscope.cli.commands.prune import show_plan
from bathyscope.cli.console import Format, write, write_data, write_table
from bathyscope.cli.summary import write_effective_depth, write_headline
from bathyscope.surgery.plan import is_plan

_EXAMPLES = """\
Examples:
  bathyscope show runs/qwen
  bathyscope show runs/qwen --measure verdict
  bathyscope show runs/qwen --measure verdict --cluster document
  bathyscope show runs/qwen --measure effective_depth
  bathyscope show runs/qwen --measure lens --format csv > lens.csv
  bathyscope show runs/qwen --measure effective_depth --format json | jq ."""

app = App(name="show", help_epilogue=_EXAMPLES)


@app.default
def show(
    run: str,
    /,
    *,
    measure: Given = None,
    cluster: Given = None,
    format: Records = "table",
    partial: Partial = False,
) -> int:
    """Print results.

    Args:
        run: folder that a survey, or prune, wrote.
        measure: which measure, or verdict for the readings behind the verdict; without it, everything is listed.
        cluster: of the verdict: label of prompts that belong together, such as document; they are resampled as one.
    """
    if is_plan(run):
        show_plan(bathyscope.open_plan(run), format)
        return 0
    opened = bathyscope.open(run, partial=partial)
    if measure is None and cluster is None:
        _show_contents(opened, format)
    elif format == "table" and measure == "effective_depth" and cluster is None:
        write_effective_depth(opened)
    else:
        if format == "table" and measure == "verdict":
            write(opened.verdict_by(cluster).text)
        frame = bathyscope.show(opened, measure, cluster=cluster)
        if not write_data(frame, format):
            write(frame.to_string(index=False, na_rep="–"))
    return 0


def _show_contents(run: bathyscope.Run, format_: Format) -> None:
    from bathyscope.contents import contents

    rows = contents(run)
    if not write_data(rows, format_):
        write_headline(run)
        named = [rows[0]["measure"], *("" if a["measure"] == b["measure"] else b["measure"] for a, b in pairwise(rows))]
        cells = [[name, *list(row.values())[1:]] for name, row in zip(named, rows, strict=True)]
        write_table([name.capitalize() for name in rows[0]], cells)

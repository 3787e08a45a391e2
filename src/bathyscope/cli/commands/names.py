"""``bathyscope show names``: the names that other commands take."""

import bathyscope
from bathyscope.cli.arguments import ResultFormat, make_app
from bathyscope.cli.console import is_terminal, terminal_width
from bathyscope.cli.printing import View, print_result
from bathyscope.cli.wrapping import cut
from bathyscope.core.result import TableResult, rows_of
from bathyscope.core.tables import frame_table
from bathyscope.pages.catalogue import Kind

_EXAMPLES = """\
Examples:
  bathyscope show names measures
  bathyscope show names datasets --format json | jq .
  bathyscope show names families --format csv"""


def names_command(kind: Kind, /, *, format: ResultFormat = "table") -> int:
    """List the names that can be chosen.

    Args:
        kind: measures, datasets, presets, families, estimators or panels.
    """
    import pandas as pd

    rows = bathyscope.names(kind)
    result = TableResult(pd.DataFrame(list(rows), dtype=object), f"{len(rows)} {kind}.", fields=rows)
    print_result(result, format, lambda: _view(result, kind))
    return 0


def _view(result: TableResult, kind: Kind) -> View:
    """Return all columns; at a terminal, measures in one line each."""
    frame = result.to_dataframe()
    if kind != "measures" or not is_terminal():
        return View([frame_table(frame)])
    rows = rows_of(frame)
    marks = [f"{'*' if row['by_default'] else ' '}{'a' if row['needs_answers'] else ' '}" for row in rows]
    longest = max(len(str(row["name"])) for row in rows)
    lines = [f"{mark} {row['name']!s:<{longest}}  {row['measures']}" for mark, row in zip(marks, rows, strict=True)]
    return View(
        [
            *(cut(line, terminal_width()) for line in lines),
            "*: by default; a: needs answers. All columns: --format csv.",
        ]
    )


app = make_app(names_command, _EXAMPLES)

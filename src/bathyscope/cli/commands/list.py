"""``bathyscope list``: the names that other commands take."""

import bathyscope
from bathyscope.cli.arguments import ResultFormat, make_app
from bathyscope.cli.printing import print_result
from bathyscope.core.result import TableResult
from bathyscope.pages.catalogue import Kind

_EXAMPLES = """\
Examples:
  bathyscope list measures
  bathyscope list datasets --format json | jq .
  bathyscope list families --format csv"""


def list_command(kind: Kind, /, *, format: ResultFormat = "table") -> int:
    """List the names that can be chosen.

    Args:
        kind: measures, datasets, presets, families or estimators.
    """
    import pandas as pd

    rows = bathyscope.names(kind)
    result = TableResult(pd.DataFrame(list(rows), dtype=object), f"{len(rows)} {kind}.", fields=rows)
    print_result(result, format)
    return 0


app = make_app(list_command, _EXAMPLES)

"""``bathyscope list``: the names that other commands take."""

import bathyscope
from bathyscope.cli.arguments import Records, as_app
from bathyscope.cli.console import write_rows
from bathyscope.pages.catalogue import Kind

_EXAMPLES = """\
Examples:
  bathyscope list measures
  bathyscope list datasets --format json | jq .
  bathyscope list families --format csv"""


def list_command(kind: Kind, /, *, format: Records = "table") -> int:
    """List what there is to choose from.

    Args:
        kind: measures, datasets, presets, families or estimators.
    """
    write_rows(bathyscope.names(kind), format)
    return 0


app = as_app(list_command, _EXAMPLES)

"""``bathyscope export``: a model with its blocks in another order, as a checkpoint for plain transformers."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Quiet, as_app
from bathyscope.cli.console import quiet_libraries, say, write

_EXAMPLES = """\
Examples:
  bathyscope export Qwen/Qwen2.5-1.5B --schedule drop:2,drop:5 --out qwen-26
  bathyscope export ./model --schedule repeat:8+4 --out model-deeper
  bathyscope export ./model --schedule drop:2,drop:5 --emit mergekit > merge.yaml"""


def export_command(
    model: str,
    /,
    *,
    schedule: str,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Write a model without some of its blocks, or with them in another order.

    Args:
        model: checkpoint folder, or name on the hub; it is copied from file to file and never loaded.
        schedule: the order of the blocks, such as drop:2,drop:5 or swap:3 or repeat:8+5.
        out: folder to write; it must not exist, be empty, or hold the same export.
    """
    with quiet_libraries(downloads=not quiet):
        found = bathyscope.export(model, schedule, out, **given)
    if isinstance(found, str):
        write(found)
    else:
        say(f"Written: {found}", quiet)
    return 0


app = as_app(export_command, _EXAMPLES, "bathyscope:export", leave_out=("folder",))

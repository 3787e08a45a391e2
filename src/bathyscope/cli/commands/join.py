"""``bathyscope survey join``: one run of the parts of a survey."""

from pathlib import Path
from typing import Annotated

import bathyscope
from bathyscope.cli.arguments import Quiet, make_app
from bathyscope.cli.console import quiet_libraries
from bathyscope.cli.printing import print_result
from bathyscope.cli.summary import run_view
from bathyscope.core.commands import name_command
from bathyscope.core.common_options import FOLDER_OF_RUN

_EXAMPLES = """\
Examples:
  bathyscope survey ./model --prompts gsm8k:1000 --part 3/16 --out parts/3
  bathyscope survey join parts/* --out runs/model"""


def join_command(*parts: str, out: Annotated[Path, FOLDER_OF_RUN], quiet: Quiet = False) -> int:
    """Join the parts of one survey to the run that a single process would have written.

    Args:
        parts: folders that surveys with --part wrote, of all parts.
    """
    with quiet_libraries(downloads=not quiet):
        run = bathyscope.join(parts, out)
    print_result(run, "table", lambda: run_view(run))
    return 0


app = make_app(join_command, _EXAMPLES, usage=f"Usage: {name_command('join')} PARTS... --out PATH")

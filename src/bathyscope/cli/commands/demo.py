"""``bathyscope demo``: the bundled model on the bundled prompts, without any network."""

import os
from pathlib import Path

from bathyscope.cli import session
from bathyscope.cli.arguments import Quiet, as_app
from bathyscope.cli.console import quiet_libraries, say, write
from bathyscope.cli.summary import print_summary

_EXAMPLES = """\
Examples:
  bathyscope demo
  bathyscope demo --out runs/first
  bathyscope show runs/demo --measure skip --format csv | head"""


def demo_command(*, out: Path = Path("runs/demo"), quiet: Quiet = False) -> int:
    """Show what a survey gives.

    Args:
        out: folder of the run and its report.
    """
    # transformers reads this when it is first imported
    os.environ["HF_HUB_OFFLINE"] = "1"
    from bathyscope.pages.demonstration import MEASURES, demo

    say(f"Surveying the bundled model: {', '.join(MEASURES)}.", quiet)
    with quiet_libraries(downloads=False):
        run = demo(out, progress=not quiet, command=session.current().command_line)
    print_summary(run)
    write(f"Report: {out / 'report.html'}")
    write(run.headline())
    return 0


app = as_app(demo_command, _EXAMPLES)

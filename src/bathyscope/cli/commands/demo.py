"""``bathyscope demo``: the bundled prompts on the bundled model, without any network; or on a real one."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bathyscope.cli import session
from bathyscope.cli.arguments import Quiet, make_app
from bathyscope.cli.console import quiet_libraries, say, write
from bathyscope.cli.printing import print_result
from bathyscope.cli.summary import run_view
from bathyscope.core.common_options import FOLDER_OF_DEMO, RealModelName
from bathyscope.core.text import capitalised

_EXAMPLES = """\
Examples:
  bathyscope demo
  bathyscope demo --out runs/first
  bathyscope demo --real --out runs/smollm2
  bathyscope demo --real --model gemma3 --out runs/gemma3
  bathyscope show runs/demo --measure skip --format csv | head"""


def demo_command(
    *,
    out: Annotated[Path, FOLDER_OF_DEMO] = Path("runs/demo"),
    real: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    model: Annotated[RealModelName | None, Parameter(show_default=False)] = None,
    quiet: Quiet = False,
) -> int:
    """Show what a survey gives.

    Args:
        real: survey a pretrained model of the hub, or a stored copy of it.
        model: which one, with --real: smollm2 = SmolLM2-135M-Instruct, gemma3 = Gemma 3 270M (not given = smollm2).
    """
    if not real:
        # transformers reads this variable once, when it is first imported.
        os.environ["HF_HUB_OFFLINE"] = "1"
    from bathyscope.pages.demonstration import MEASURES, REAL_MEASURES, demo, pretrained_model

    pretrained = pretrained_model(real, model)
    if pretrained is None:
        say(f"Surveying the bundled model: {', '.join(MEASURES)}.", quiet)
    else:
        say(f"Surveying {pretrained.hub}: {', '.join(REAL_MEASURES)}. {capitalised(pretrained.cost)}.", quiet)
    with quiet_libraries(downloads=real and not quiet):
        run = demo(out, real=real, model=model, progress=not quiet, command=session.current().command_line)
    print_result(run, "table", lambda: run_view(run))
    write(f"Report: {out / 'report.html'}")
    return 0


app = make_app(demo_command, _EXAMPLES)

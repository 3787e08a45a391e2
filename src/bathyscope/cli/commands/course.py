"""``bathyscope course``: depth by step, of the checkpoints of one training."""

from pathlib import Path
from typing import Any

import bathyscope
from bathyscope.cli.arguments import LOADING_SEVERAL, Quiet, ResultFormat, make_app, take_options
from bathyscope.cli.commands.survey import Sources, read_source, split_names
from bathyscope.cli.console import quiet_libraries
from bathyscope.cli.printing import print_result
from bathyscope.surveying.options import CourseOptions

_EXAMPLES = """\
Examples:
  bathyscope course output --prompts gsm8k:8 --out runs/course
  bathyscope course EleutherAI/pythia-70m --revisions step1000,step2000 --prompts gsm8k:8 --out runs/pythia"""


def course_command(
    *checkpoints: str,
    prompts: Sources,
    out: Path,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Survey the checkpoints of a training; those that are done are not surveyed again.

    Args:
        checkpoints: a folder of checkpoint-STEP folders, several such folders, or a model on the hub with --revisions.
        out: folder of the course, with a run for each step.
    """
    loading = take_options(LOADING_SEVERAL, options)
    # each flag may be given several times, and each time name several
    for name in ("measures", "revisions"):
        if name in options:
            options[name] = tuple(split_names(options[name]))
    sources = checkpoints[0] if len(checkpoints) == 1 else list(checkpoints)
    with quiet_libraries(downloads=not quiet):
        result = bathyscope.course(sources, read_source(prompts), out, loading=loading, progress=not quiet, **options)
    print_result(result, format)
    return 0


app = make_app(
    course_command,
    _EXAMPLES,
    CourseOptions,
    loading=LOADING_SEVERAL,
    usage="Usage: bathyscope course CHECKPOINTS... --prompts SOURCE --out PATH",
)

"""``bathyscope prune repeat-scan``: does it help to run some window of blocks twice?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, make_app, run_on_models
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.printing import print_result
from bathyscope.surgery.options import RepeatScanOptions

if TYPE_CHECKING:
    pass

_EXAMPLES = """\
Examples:
  bathyscope prune repeat-scan ./model --prompts gsm8k:40
  bathyscope prune repeat-scan ./model --prompts problems.jsonl --over answer --longest 4
  bathyscope prune repeat-scan ./model --prompts "other.txt:80?window=256" --format csv > windows.csv"""


def repeat_scan_command(
    model: ModelName,
    /,
    *,
    prompts: Sources,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Run every window of blocks twice in a row."""
    scan = run_on_models(
        bathyscope.repeat_scan,
        [model],
        read_source(prompts),
        options=options,
        quiet=quiet,
    )
    print_result(scan, format)
    return 0


app = make_app(repeat_scan_command, _EXAMPLES, RepeatScanOptions, loading=LOADING)

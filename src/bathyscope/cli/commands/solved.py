"""``bathyscope compare solved``: whether a model gives each prompt's answer."""

from typing import Any

import bathyscope
from bathyscope.analysis.options import SolvedOptions
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, make_app, run_on_models
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.printing import print_result

_EXAMPLES = """\
Examples:
  bathyscope compare solved Qwen/Qwen2.5-1.5B --prompts gsm8k:20
  bathyscope compare solved ./model --prompts problems.jsonl --format csv > solved.csv"""


def solved_command(
    model: ModelName,
    /,
    *,
    prompts: Sources,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Test whether greedy decoding gives the answers."""
    source = read_source(prompts)
    result = run_on_models(bathyscope.solved, [model], source, options=options, quiet=quiet)
    print_result(result, format)
    return 0


app = make_app(solved_command, _EXAMPLES, SolvedOptions, loading=LOADING)

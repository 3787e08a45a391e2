"""``bathyscope compare written``: whether what a model writes is right more often where it settles late."""

from typing import Any

import bathyscope
from bathyscope.analysis.options import WrittenOptions
from bathyscope.cli.arguments import Partial, ResultFormat, make_app, open_run
from bathyscope.cli.printing import print_result

_EXAMPLES = """\
Examples:
  bathyscope survey gpt2 --prompts gsm8k:40 --measures lens --write 200 --out runs/written
  bathyscope compare written runs/written"""


def written_command(run: str, /, *, format: ResultFormat = "table", partial: Partial = False, **options: Any) -> int:
    """Relate the depth of what a model wrote to writing the right answer.

    Args:
        run: folder of a survey with --write, on prompts with answers.
    """
    print_result(bathyscope.written(open_run(run, partial), **options), format)
    return 0


app = make_app(written_command, _EXAMPLES, WrittenOptions)

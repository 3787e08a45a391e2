"""``bathyscope solved``: whether a model gives each prompt's answer."""

from typing import Any

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, Records, as_app, on_models, records
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import write_rows

_VALUES = ("solved", "right_tokens", "answer_tokens", "answer_logprob")
_COLUMNS = {"prompt_id": "prompt", **{name: name for name in _VALUES}}
_EXAMPLES = """\
Examples:
  bathyscope solved Qwen/Qwen2.5-1.5B --prompts gsm8k:20
  bathyscope solved ./model --prompts problems.jsonl --format csv > solved.csv"""


def solved_command(
    model: ModelName, /, *, prompts: Sources, format: Records = "table", quiet: Quiet = False, **given: Any
) -> int:
    """Whether greedy decoding gives the answers."""
    found = on_models(bathyscope.solved, [model], one_source(prompts), given=given, quiet=quiet)
    rows = records(found, _COLUMNS, ("prompt",))
    answered = int(found["solved"].notnull().sum())
    write_rows(rows, format, f"{int(found['solved'].sum())} of {answered} prompts with an answer are solved.")
    return 0


app = as_app(solved_command, _EXAMPLES, "bathyscope:solved", loading=LOADING)

"""``bathyscope solved``: whether a model gives each prompt's answer."""

from __future__ import annotations

from typing import Any

from cyclopts import App

import bathyscope
from bathyscope.cli.arguments import LOADING, Quiet, Records, load_all, records
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import quiet_libraries, write_rows
from bathyscope.cli.flags import command, flags, options_of

_OPTIONS = options_of("bathyscope:solved", leave_out=("model", "prompts", "progress"))
_VALUES = ("solved", "right_tokens", "answer_tokens", "answer_logprob")
_COLUMNS = {"prompt_id": "prompt", **{name: name for name in _VALUES}}
_EXAMPLES = """\
Examples:
  bathyscope solved Qwen/Qwen2.5-1.5B --prompts gsm8k:20
  bathyscope solved ./model --prompts problems.jsonl --format csv > solved.csv"""


def solved_command(
    model: str,
    /,
    *,
    prompts: Sources,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Whether greedy decoding gives the answers.

    Args:
        model: name on the hub, or a local folder.
    """
    [loaded] = load_all([model], given, quiet)
    with quiet_libraries(downloads=not quiet):
        found = bathyscope.solved(loaded, one_source(prompts), progress=not quiet, **given)
    rows = records(found, _COLUMNS, ("prompt",))
    answered = int(found["solved"].notnull().sum())
    write_rows(rows, format, f"{int(found['solved'].sum())} of {answered} prompts with an answer are solved.")
    return 0


app = App(name="solved", help_epilogue=_EXAMPLES)
app.default(command(solved_command, flags(LOADING) + flags(_OPTIONS)))

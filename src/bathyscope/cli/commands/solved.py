"""``bathyscope solved``: whether a model gives each prompt's answer."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, Quiet, Records, load_all
from bathyscope.cli.commands.survey import IN_A_SHELL, one_source
from bathyscope.cli.console import quiet_libraries, write_rows
from bathyscope.cli.flags import command, flags, options_of

_OPTIONS = options_of("bathyscope:solved", leave_out=("model", "prompts", "progress"))
_COLUMNS = ("solved", "right_tokens", "answer_tokens", "answer_logprob")
_EXAMPLES = """\
Examples:
  bathyscope solved Qwen/Qwen2.5-1.5B --prompts gsm8k:20
  bathyscope solved ./model --prompts problems.jsonl --format csv > solved.csv"""


def solved_command(
    model: str,
    /,
    *,
    prompts: Annotated[list[str], Parameter(help=IN_A_SHELL["prompts"], negative=())],
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
    ids = found["prompt_id"].values.tolist()
    rows = [
        {"prompt": name, **{column: found[column].values[i].item() for column in _COLUMNS}}
        for i, name in enumerate(ids)
    ]
    answered = int(found["solved"].notnull().sum())
    write_rows(rows, format, f"{int(found['solved'].sum())} of {answered} prompts with an answer are solved.")
    return 0


app = App(name="solved", help_epilogue=_EXAMPLES)
app.default(command(solved_command, flags(LOADING) + flags(_OPTIONS)))

"""``bathyscope push``: a run as a data set on the hub. Needs no model library."""

from typing import Annotated

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import RunFolder, make_app
from bathyscope.cli.console import write
from bathyscope.core.common_options import DRY_RUN

_EXAMPLES = """\
Examples:
  bathyscope push runs/qwen user/qwen-gsm8k --dry-run
  bathyscope push runs/qwen user/qwen-gsm8k
  bathyscope show hf://datasets/user/qwen-gsm8k"""


def push_command(
    run: RunFolder,
    to: str,
    /,
    *,
    private: Annotated[bool, Parameter(show_default=lambda _: "yes")] = True,
    keep_paths: Annotated[bool, Parameter(negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=()), DRY_RUN] = False,
) -> int:
    """Publish a run as a data set on the Hugging Face hub, with the texts of its prompts where it stores them.

    Args:
        to: owner/name of the data set, which is created where it does not exist.
        private: only its owner can read it; --no-private for everybody.
        keep_paths: publish absolute paths too, such as that of a local model; else their last names alone.
    """
    write(bathyscope.push(run, to, private=private, keep_paths=keep_paths, dry_run=dry_run))
    return 0


app = make_app(push_command, _EXAMPLES)

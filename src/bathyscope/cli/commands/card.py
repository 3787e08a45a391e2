"""``bathyscope card``: a run as Markdown for a model card. Needs no model library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Partial, make_app, open_run
from bathyscope.cli.console import say, write

_EXAMPLES = """\
Examples:
  bathyscope card runs/qwen --out depth.md
  bathyscope card runs/qwen >> README.md"""


def card_command(
    run: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    partial: Partial = False,
) -> int:
    """Write a run up for a model card: Markdown with the depth profile, and the numbers as JSON.

    Args:
        run: folder that a survey wrote.
        out: the Markdown file, next to which the picture is written; not given = standard output, no picture.
    """
    content = bathyscope.card(open_run(run, partial), out)
    if out is None:
        write(content)
    else:
        say(f"Written: {out} and {out.with_suffix('.svg')}")
    return 0


app = make_app(card_command, _EXAMPLES)

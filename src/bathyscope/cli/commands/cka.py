"""``bathyscope cka``: how alike the boundaries of two models are."""

from __future__ import annotations

from typing import Any

from cyclopts import App

import bathyscope
from bathyscope.cli.arguments import LOADING, Quiet, Records, load_all, records
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import quiet_libraries, write_rows
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.measures.registry import MEASURES

_DEFAULTS: Any = MEASURES["cka"].options_type()
_OPTIONS = options_of("bathyscope:cka", leave_out=("model", "other", "prompts", "progress"))
_EXAMPLES = """\
Examples:
  bathyscope cka gpt2 gpt2-medium --prompts gsm8k:20
  bathyscope cka ./base ./tuned --prompts stories.txt:50?window=256 --format csv > cka.csv"""


def cka_command(
    model: str,
    other: str,
    /,
    *,
    prompts: Sources,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Compare the boundaries of two models by linear CKA.

    Args:
        model: name on the hub, or a local folder.
        other: the second model.
    """
    first, second = load_all([model, other], given, quiet)
    with quiet_libraries(downloads=not quiet):
        found = bathyscope.cka(first, second, one_source(prompts), **given)
    rows = records(found, ("tokens", "boundary", "boundary_other", "cka", "ci_low", "ci_high"), found["cka"].dims)
    write_rows(rows, format, f"Intervals of {given.get('level', _DEFAULTS.level):.0%}.")
    return 0


app = App(name="cka", help_epilogue=_EXAMPLES)
_DERIVED = [*flags(LOADING), *flags(_OPTIONS), *flags(MEASURES["cka"].options_type)]
app.default(command(cka_command, _DERIVED))

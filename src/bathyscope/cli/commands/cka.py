"""``bathyscope cka``: how alike the boundaries of two models are."""

from typing import Any

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, Records, as_app, load_all, records
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import quiet_libraries, write_rows
from bathyscope.cli.flags import flags
from bathyscope.measures.registry import MEASURES

_MEASURE: Any = MEASURES["cka"].options_type
_EXAMPLES = """\
Examples:
  bathyscope cka gpt2 gpt2-medium --prompts gsm8k:20
  bathyscope cka ./base ./tuned --prompts "stories.txt:50?window=256" --format csv > cka.csv"""


def cka_command(
    model: ModelName, other: str, /, *, prompts: Sources, format: Records = "table", quiet: Quiet = False, **given: Any
) -> int:
    """Compare the boundaries of two models by linear CKA.

    Args:
        other: the second model.
    """
    source = one_source(prompts)
    first, second = load_all([model, other], given, quiet)
    with quiet_libraries(downloads=not quiet):
        found = bathyscope.cka(first, second, source, **given)
    rows = records(found, ("tokens", "boundary", "boundary_other", "cka", "ci_low", "ci_high"), found["cka"].dims)
    write_rows(rows, format, f"Intervals of {given.get('level', _MEASURE().level):.0%}.")
    return 0


app = as_app(cka_command, _EXAMPLES, "bathyscope:cka", loading=LOADING, beside=flags(_MEASURE))

"""``bathyscope diff``: where two models of one shape part."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.analysis.options import DiffOptions
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, load_models, make_app
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.console import quiet_libraries, say
from bathyscope.cli.printing import print_result

_EXAMPLES = """\
Examples:
  bathyscope diff ./base ./tuned --prompts gsm8k:20 --out diff.html
  bathyscope diff ./base ./int8 --prompts "stories.txt:50?window=256" --format json > diff.json"""


def diff_command(
    a: ModelName,
    b: str,
    /,
    *,
    prompts: Sources,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Show where two models of one shape part: a model and its tuned, quantised or converted copy.

    Args:
        b: the second model.
        out: also write a page (.html), with figures and the tokens at which the models part.
    """
    if out is not None:
        from bathyscope.pages.page import check_page

        check_page(out)
    source = read_source(prompts)
    first, second = load_models([a, b], options, quiet)
    with quiet_libraries(downloads=not quiet):
        result = bathyscope.diff(first, second, source, **options)
    print_result(result, format)
    if out is not None:
        from bathyscope.pages.page import report

        report(result, out)
        say(f"Written: {out}", quiet)
    return 0


app = make_app(
    diff_command,
    _EXAMPLES,
    DiffOptions,
    loading=LOADING,
    usage="Usage: bathyscope diff A B --prompts STR... [OPTIONS]",
)

"""``bathyscope prune exit-advice``: does it pay to draft with the first blocks of a model?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import (
    LOADING,
    ModelName,
    Picture,
    Quiet,
    ResultFormat,
    check_picture,
    make_app,
    run_on_models,
    write_picture,
)
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.printing import print_result
from bathyscope.surgery.options import ExitAdviceOptions

if TYPE_CHECKING:
    pass

_EXAMPLES = """\
Examples:
  bathyscope prune exit-advice ./model --prompts "stories.txt:100?window=64"
  bathyscope prune exit-advice ./model --prompts "valid.txt:100?window=64" --verify "test.txt:40?window=64" --out a.png
  bathyscope prune exit-advice ./model --prompts mine.jsonl --new-tokens 128 --changed 0.02 --format csv > exits.csv"""


def exit_advice_command(
    model: ModelName,
    /,
    *,
    prompts: Sources,
    verify: Annotated[
        list[str] | None,
        Parameter(help="other prompts, continued with every exit and without, to test the prediction", negative=()),
    ] = None,
    out: Picture = None,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Say whether transformers' early exit pays, and where."""
    check_picture(out)
    advice = run_on_models(
        bathyscope.exit_advice,
        [model],
        read_source(prompts),
        verify=None if verify is None else read_source(verify),
        options=options,
        quiet=quiet,
    )
    print_result(advice, format)
    write_picture(out, advice, quiet)
    return 0


app = make_app(exit_advice_command, _EXAMPLES, ExitAdviceOptions, loading=LOADING)

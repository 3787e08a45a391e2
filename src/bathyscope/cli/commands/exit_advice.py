"""``bathyscope prune exit-advice``: does it pay to draft with the first blocks of a model?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

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
from bathyscope.cli.printing import TextTable, View, print_result
from bathyscope.core.estimates import Estimate
from bathyscope.surgery.options import ExitAdviceOptions

if TYPE_CHECKING:
    from bathyscope.surgery.exits.result import ExitAdvice

_EXAMPLES = """\
Examples:
  bathyscope prune exit-advice ./model --prompts "stories.txt:100?window=64"
  bathyscope prune exit-advice ./model --prompts "valid.txt:100?window=64" --verify "test.txt:40?window=64" --out a.png
  bathyscope prune exit-advice ./model --prompts mine.jsonl --new-tokens 128 --changed 0.02 --format csv > exits.csv"""
_HEADINGS: Final = {
    "acceptance": "predicted",
    "draft": "draft",
    "tokens_per_pass": "tokens a pass",
    "bare_speed": "bare speed",
    "speed": "speed",
    "foretold_share": "right drafts, predicted",
    "measured_share": "measured",
    "identical": "identical",
    "plain_seconds": "plain, s",
    "exit_seconds": "with drafts, s",
    "measured_speed": "speed, measured",
}
"""Column → heading."""


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
    print_result(advice, format, lambda: _view(advice))
    write_picture(out, "exits", advice.data, quiet)
    return 0


def _view(advice: ExitAdvice) -> View:
    table = advice.to_dataframe()
    columns = [name for name in _HEADINGS if name in table]
    rows = [[str(int(row["exit"])), *(_write_cell(row, name) for name in columns)] for _, row in table.iterrows()]
    title = f"Exits of {advice.data.attrs['n_blocks']} blocks, each with the draft that pays most"
    return View([TextTable(["exit", *(_HEADINGS[name] for name in columns)], rows, title)])


def _write_cell(row: Any, name: str) -> str:
    """Return a number, with its interval where it has one."""
    ends = "measured" if name == "measured_share" else name
    return str(int(row[name])) if name == "draft" else f"{Estimate.of(row, name, ends):.3g}"


app = make_app(exit_advice_command, _EXAMPLES, ExitAdviceOptions, loading=LOADING)

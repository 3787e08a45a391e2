"""``bathyscope exit-advice``: does it pay to draft with the first blocks of a model?"""

from typing import Annotated, Any, Final

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import (
    LOADING,
    ModelName,
    Picture,
    Quiet,
    Records,
    as_app,
    check_picture,
    on_models,
    write_picture,
)
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import write, write_data, write_json, write_table

_EXAMPLES = """\
Examples:
  bathyscope exit-advice ./model --prompts "stories.txt:100?window=64"
  bathyscope exit-advice ./model --prompts "valid.txt:100?window=64" --verify "test.txt:40?window=64" --out exits.png
  bathyscope exit-advice ./model --prompts mine.jsonl --new-tokens 128 --changed 0.02 --format csv > exits.csv"""
_HEADINGS: Final = {
    "acceptance": "foretold",
    "draft": "draft",
    "tokens_per_pass": "tokens a pass",
    "bare_speed": "bare speed",
    "speed": "speed",
    "foretold_share": "right drafts, foretold",
    "measured_share": "measured",
    "identical": "identical",
    "plain_seconds": "plain, s",
    "exit_seconds": "with drafts, s",
    "measured_speed": "speed, measured",
}


def exit_advice_command(
    model: ModelName,
    /,
    *,
    prompts: Sources,
    verify: Annotated[
        list[str] | None,
        Parameter(help="other prompts, continued with every exit and without beside what was foretold", negative=()),
    ] = None,
    out: Picture = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Say whether transformers' early exit pays, and where."""
    check_picture(out)
    held_out = None if verify is None else one_source(verify)
    advice = on_models(bathyscope.exit_advice, [model], one_source(prompts), verify=held_out, given=given, quiet=quiet)
    table = advice.table
    if format == "json":
        write_json(advice.record())
    elif not write_data(table, format):
        shown = [name for name in _HEADINGS if name in table]
        rows = [[str(int(row["exit"])), *(_cell(row, name) for name in shown)] for _, row in table.iterrows()]
        title = f"Exits of {advice.data.attrs['n_blocks']} blocks, each with the draft that pays most"
        write_table(["exit", *(_HEADINGS[name] for name in shown)], rows, title=title)
        write(advice.text)
    write_picture(out, "exits", advice.data, quiet)
    return 0


def _cell(row: Any, name: str) -> str:
    """A number, with its interval where it has one."""
    ends = "measured" if name == "measured_share" else name
    value = str(int(row[name])) if name == "draft" else f"{row[name]:.3g}"
    return f"{value} ({row[f'{ends}_low']:.3g} to {row[f'{ends}_high']:.3g})" if f"{ends}_low" in row else value


app = as_app(exit_advice_command, _EXAMPLES, "bathyscope:exit_advice", loading=LOADING)

"""``bathyscope probe subjoiner``: heads that gather the tokens of a word at its last one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.model import load
from bathyscope.probing.subjoiner import subjoiner

if TYPE_CHECKING:
    import xarray as xr


COLUMNS = {
    "top_block": "block",
    "top_head": "head",
    "top_score": "score",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
    "top_split": "split",
    "top_whole": "whole",
}
"""Variable → column."""
_LOADING = options_of(load, leave_out=("model", "tokenizer", "family"))
_OF_LOADING = ("dtype", "device", "revision", "trust_remote_code")
_EXAMPLES = """\
Examples:
  bathyscope probe subjoiner gpt2 --words book.txt
  bathyscope probe subjoiner ./model --words list.txt --pieces 3 --out heads.png
  bathyscope probe subjoiner gpt2 --words book.txt --format csv > heads.csv"""


def subjoiner_command(
    model: str,
    /,
    *,
    words: str,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: Format = "table",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Heads that attend from a word's last token to its earlier tokens.

    Args:
        model: name on the hub, or a local folder.
        words: a text file, gzipped where its name ends in .gz; its different words are taken.
        out: also write a figure of all heads (.png, .svg, .pdf).
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from bathyscope.report.export import write_output
    from bathyscope.report.figures.subjoiner import draw
    from bathyscope.report.render import check_format, render

    if out is not None:
        check_format(out.suffix.removeprefix("."))
    loading = {name: given.pop(name) for name in _OF_LOADING if name in given}
    say(f"Loading {model}.", quiet)
    with quiet_libraries(downloads=not quiet):
        found = subjoiner(load(model, **loading), words, progress=not quiet, **given)
    _show(found, format)
    if out is not None:
        write_output(out, render(draw(found), out.suffix.removeprefix(".")))
        say(f"Written: {out}", quiet)
    return 0


def head_rows(found: xr.Dataset) -> list[dict[str, Any]]:
    """A row for every head with a rank, the first rank first."""
    return [
        {"rank": rank, **{column: found[name].values[rank].item() for name, column in COLUMNS.items()}}
        for rank in found["rank"].values.tolist()
    ]


def _show(found: xr.Dataset, format_: Format) -> None:
    rows = head_rows(found)
    if not write_data(rows, format_):
        _show_table(rows, found)


def _show_table(rows: list[dict[str, Any]], found: xr.Dataset) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for heading in rows[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    write_table(table)
    n, held_out, split = found.attrs["pieces"], found["held_out"].values, found["split"].values
    write(
        f"Attention of a word's last token to the {n - 1} tokens before it: in words of {n} tokens (split), in words "
        f"of one (whole), and the difference (score), on {int((held_out & split).sum())} and "
        f"{int((held_out & ~split).sum())} held-out words. The order is that of the other half of the words."
    )


app = App(name="subjoiner", help_epilogue=_EXAMPLES)
app.default(
    command(subjoiner_command, flags(_LOADING) + flags(options_of(subjoiner, leave_out=("model", "words", "progress"))))
)

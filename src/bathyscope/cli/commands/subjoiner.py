"""``bathyscope probe subjoiner``: heads that gather the tokens of a word at its last one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

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
    records,
    write_picture,
)
from bathyscope.cli.console import write, write_data, write_table

if TYPE_CHECKING:
    import xarray as xr

COLUMNS = {
    "rank": "rank",
    "top_block": "block",
    "top_head": "head",
    "top_score": "score",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
    "top_split": "split",
    "top_whole": "whole",
}
"""Variable → column."""
_EXAMPLES = """\
Examples:
  bathyscope probe subjoiner gpt2 --words book.txt
  bathyscope probe subjoiner ./model --words list.txt --pieces 3 --out heads.png
  bathyscope probe subjoiner gpt2 --words book.txt --format csv > heads.csv"""


def subjoiner_command(
    model: ModelName,
    /,
    *,
    words: str,
    out: Annotated[Picture, Parameter(help="also write a figure of all heads (.png, .svg, .pdf).")] = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Heads that attend from a word's last token to its earlier tokens.

    Args:
        words: a text file, gzipped where its name ends in .gz; its different words are taken.
    """
    check_picture(out)
    found = on_models(partial(bathyscope.probe, "subjoiner"), [model], words, given=given, quiet=quiet)
    rows = head_rows(found)
    if not write_data(rows, format):
        headings = [name.replace("_", " ") for name in rows[0]]
        write_table(headings, [[f"{v:.3f}" if isinstance(v, float) else v for v in row.values()] for row in rows])
        write(remark(found))
    write_picture(out, "subjoiner", found, quiet)
    return 0


def head_rows(found: xr.Dataset) -> list[dict[str, Any]]:
    """A row for every head with a rank, the first rank first."""
    return records(found, COLUMNS, ("rank",))


def remark(found: xr.Dataset) -> str:
    """What the numbers are of, and how many words they come from."""
    n, held_out, split = found.attrs["pieces"], found["held_out"].values, found["split"].values
    return (
        f"Attention of a word's last token to the {n - 1} tokens before it: in words of {n} tokens (split), in words "
        f"of one (whole), and the difference (score), on {int((held_out & split).sum())} and "
        f"{int((held_out & ~split).sum())} held-out words. The order is that of the other half of the words."
    )


app = as_app(subjoiner_command, _EXAMPLES, "bathyscope.probing.subjoiner:subjoiner", loading=LOADING)

"""``bathyscope probe subjoiner``: heads that gather the tokens of a word at its last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from bathyscope.cli.arguments import Picture, Quiet, Records, check_picture, records, write_picture
from bathyscope.cli.commands.probe import probe_flags, probed
from bathyscope.cli.console import write, write_data, write_table
from bathyscope.cli.flags import command

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
    model: str,
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
        model: name on the hub, or a local folder.
        words: a text file, gzipped where its name ends in .gz; its different words are taken.
    """
    check_picture(out)
    found = probed("subjoiner", model, (words,), given, quiet)
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


app = App(name="subjoiner", help_epilogue=_EXAMPLES)
app.default(command(subjoiner_command, probe_flags("bathyscope.probing.subjoiner:subjoiner", "words")))

"""``bathyscope compare``: differences of effective depth between runs, with their uncertainty."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Partial, Records, as_app
from bathyscope.cli.console import Format, say, write, write_data, write_table
from bathyscope.errors import OptionError

if TYPE_CHECKING:
    from bathyscope.analysis.depths import Comparison

Pair = tuple[str, str]

_EXAMPLES = """\
Examples:
  bathyscope compare runs/qwen runs/llama
  bathyscope compare runs/base-gsm8k:runs/r1-gsm8k --question reasoning
  bathyscope compare runs/1.5b runs/7b runs/14b --question size --out size.html
  bathyscope compare runs/one runs/other --equivalence 1 --equivalence-unit blocks --cluster document
  bathyscope compare runs/math --question difficulty --by level --format csv > levels.csv"""


def compare_command(
    *runs: str,
    paired: Annotated[bool | None, Parameter(negative="--unpaired", show_default=False)] = None,
    format: Records = "table",
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    partial: Partial = False,
    **given: Any,
) -> int:
    """Compare runs.

    Args:
        runs: folders that surveys wrote, each compared with the first; or pairs REFERENCE:OTHER.
        paired: pair prompts by their ids, or never; without either, where the runs measured the same prompts.
        out: also write a page (.html) or a figure (.png, .svg, .pdf).
    """
    if not runs:
        raise OptionError("No run given; say which: bathyscope compare runs/one runs/other")
    if out is not None:
        from bathyscope.pages.comparison.page import check_out

        check_out(out)
    folders, pairs = _folders(runs)
    opened = [bathyscope.open(folder, partial=partial) for folder in folders]
    found = bathyscope.compare(opened, pairs=pairs, paired=paired, **given)
    _show(found, format)
    if out is not None:
        from bathyscope.pages.comparison.page import write_comparison

        say(f"Written: {write_comparison(found, out)}")
    return 0


def _show(found: Comparison, format_: Format) -> None:
    if write_data(found.to_dataframe(), format_):
        for note in found.notes:
            say(f"note: {note}.")
        say(found.summary())
        return
    from bathyscope.pages.comparison.table import LEGEND, difference_rows, no_difference, remarks, title

    for number in range(found.data.sizes["comparison"]):
        one = found.data.isel(comparison=number)
        said = [*no_difference(found, number), *remarks(one)]
        write_table(*difference_rows(found, number), title(one), said)
        write("")
    for note in found.notes:
        write(f"Note: {note}.")
    write(found.summary())
    write(LEGEND)


def _folders(given: Sequence[str]) -> tuple[list[str], list[tuple[int, int]] | None]:
    """Every folder once, and which of them belong together where REFERENCE:OTHER was given."""
    split = [_pair(text) for text in given]
    pairs = [pair for pair in split if pair is not None]
    if not pairs:
        return list(given), None
    if len(pairs) < len(given):
        alone = next(text for text, pair in zip(given, split) if pair is None)
        raise OptionError(
            f"{alone!r} is a single run among pairs REFERENCE:OTHER; give pairs only, or folders only "
            "(each is then compared with the first)."
        )
    folders = list(dict.fromkeys(folder for pair in pairs for folder in pair))
    return folders, [(folders.index(reference), folders.index(other)) for reference, other in pairs]


def _pair(text: str) -> Pair | None:
    """The two folders of REFERENCE:OTHER; None for a folder, whose own name may hold a colon."""
    if ":" not in text or os.path.exists(text):
        return None
    # where folders have colons in their names, the cut that leaves two that exist
    cuts = [(text[:place], text[place + 1 :]) for place, letter in enumerate(text) if letter == ":"]
    return next((cut for cut in cuts if all(os.path.exists(folder) for folder in cut)), cuts[0])


app = as_app(
    compare_command,
    _EXAMPLES,
    "bathyscope:compare",
    leave_out=("pairs",),
    usage="Usage: bathyscope compare RUNS... [OPTIONS]",
)

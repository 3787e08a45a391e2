"""The one printer of results: a table with its conclusion first, or CSV or JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bathyscope.cli.console import Format, write, write_data, write_json, write_table

if TYPE_CHECKING:
    import pandas as pd

    from bathyscope.core.result import Result


@dataclass(frozen=True)
class TextTable:
    """A table for people.

    Args:
        rows: cells: texts, numbers, None or NaN for what is missing, rich texts for colour.
        title: above the table.
        caption: lines below the table.
        optional: headings of columns that a narrow terminal leaves out, the first ones first.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    caption: Sequence[str] = ()
    optional: Sequence[str] = ()


@dataclass(frozen=True)
class View:
    """What people see of a result below its conclusion: tables and sentences, in this order.

    Args:
        blocks: tables and lines.
        conclusion: is printed in place of the result's own text; None = that text.
    """

    blocks: Sequence[TextTable | str] = ()
    conclusion: Sequence[str] | None = None


def print_result(result: Result, format_: Format, view: Callable[[], View] | None = None) -> None:
    """Print a result on standard output.

    Args:
        format_: table, csv or json. CSV is the result's table and JSON its record; neither holds anything else, so that
            programs can read them.
        view: makes what a table shows; None = the result's table under the names of its columns. It is called only
            where it is needed, since making a table for people may take longer than making the data.
    """
    if format_ == "json":
        write_json(result.record())
    elif format_ == "csv":
        write_data(result.to_dataframe(), format_)
    else:
        page = View([frame_table(result.to_dataframe())]) if view is None else view()
        for line in (result.text,) if page.conclusion is None else page.conclusion:
            write(line)
        for block in page.blocks:
            print_block(block)


def print_block(block: TextTable | str) -> None:
    """Print one table or line."""
    if isinstance(block, str):
        write(block)
    # A table without rows would be headings alone, which look like a failure.
    elif block.rows:
        write_table(block.headings, block.rows, block.title, block.caption, block.optional)


def frame_table(frame: pd.DataFrame, title: str = "") -> TextTable:
    """Return a table for people under the names of a frame's columns."""
    headings = [str(name).replace("_", " ") for name in frame.columns]
    return TextTable(headings, list(frame.itertuples(index=False, name=None)), title)

"""The one printer of results: a table with its conclusion first, or CSV or JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bathyscope.cli.console import (
    Format,
    write,
    write_data,
    write_json,
)
from bathyscope.cli.table_printing import print_table
from bathyscope.core.tables import TextTable

if TYPE_CHECKING:
    from bathyscope.core.result import Result


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
        view: makes what people see below the conclusion; None = the tables of the result. It is called only where it
            is needed, since making a table for people may take longer than making the data.
    """
    if format_ == "json":
        write_json(result.record())
    elif format_ == "csv":
        write_data(result.to_dataframe(), format_)
    else:
        page = View(blocks_of(result.tables())) if view is None else view()
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
        print_table(block)


def blocks_of(tables: Sequence[TextTable]) -> list[TextTable | str]:
    """Return the tables that have rows, with an empty line between any two."""
    blocks: list[TextTable | str] = []
    for table in tables:
        if table.rows:
            blocks += ["", table] if blocks else [table]
    return blocks

"""A table on a terminal: columns that fit its width, or records where none would."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bathyscope.cli.wrapping import units, wrap
from bathyscope.core.tables import THREE_DIGITS, TextTable
from bathyscope.core.text import legible

if TYPE_CHECKING:
    from rich.text import Text

from bathyscope.cli.console import print_text, replace_glyphs, terminal_width, write

_NUMBER = re.compile(r"\s*[-+−–<≠=·\d.]|\s*$")


def write_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    caption: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> None:
    """Write a table for people; the arguments are those of :class:`TextTable`."""
    print_table(TextTable(headings, rows, title, caption, optional))


def print_table(table: TextTable) -> None:
    """Write a table for people, as wide as the terminal, or wide enough for a file where there is no terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings, title, caption = table.headings, table.title, table.caption
    texts = [
        [cell if isinstance(cell, Text) else Text(_shorten(table, *named)) for cell, named in zip(row, written)]
        for row, written in zip(table.rows, (zip(headings, cells) for cells in table.cells(THREE_DIGITS)), strict=True)
    ]
    grid = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    # The cells are laid out here and not by rich, which breaks words before it narrows the widest column.
    columns = terminal_width()
    narrowed = _leave_out(headings, texts, columns, table.optional)
    if narrowed is None:
        _write_records([legible(heading) for heading in headings], texts, title, caption)
        return
    missing = [heading for heading in headings if heading not in narrowed.headings]
    headings, cells, widths = narrowed
    if title:
        write(title)
    for number, heading in enumerate(headings):
        figures = all(_NUMBER.match(row[number].plain) for row in cells)
        grid.add_column(
            Text("\n".join(wrap(legible(heading), widths[number]))),
            justify="right" if figures else "left",
            width=widths[number],
        )
    for row in cells:
        grid.add_row(*(_fit_cell(cell, room) for cell, room in zip(row, widths, strict=True)))
    page = io.StringIO()
    terminal = sys.stdout.isatty()
    Console(file=page, width=columns, force_terminal=terminal, safe_box=True, emoji=False).print(grid)
    print_text(replace_glyphs("\n".join(line.rstrip() for line in page.getvalue().splitlines()), sys.stdout))
    for line in caption:
        write(line)
    if missing:
        write(f"Left out, too wide for this terminal: {', '.join(missing)} (--format csv has all).")


class _Fitted(NamedTuple):
    """Columns that have room, and the letters of each."""

    headings: Sequence[str]
    cells: Sequence[Sequence[Text]]
    widths: Sequence[int]


def _leave_out(
    headings: Sequence[str], cells: Sequence[Sequence[Text]], columns: int, optional: Sequence[str]
) -> _Fitted | None:
    """Return the columns that have room, without as many optional ones as needed; None where none has."""
    droppable = [name for name in optional if name in headings]
    for count in range(len(droppable) + 1):
        remaining = [number for number, name in enumerate(headings) if name not in droppable[:count]]
        texts = [[legible(headings[number]), *(row[number].plain for row in cells)] for number in remaining]
        widths = _fit_widths(texts, columns - 2 * len(remaining))
        if widths is not None:
            rows = [[row[number] for number in remaining] for row in cells]
            return _Fitted([headings[number] for number in remaining], rows, widths)
    return None


def _fit_widths(texts: Sequence[Sequence[str]], room: int) -> Sequence[int] | None:
    """Return the letters of every column: the widest give way first and none breaks a word; None where some must."""
    # Letters of some scripts are two columns wide, so the length of a text is not its width.
    from rich.cells import cell_len

    widths = [max(cell_len(text) for text in column) for column in texts]
    # Every line of a cell keeps its indentation, so the longest word needs room for that too.
    least = [
        max(len(text) - len(text.lstrip()) + max(map(cell_len, units(_breakable(text)) or [""])) for text in column)
        for column in texts
    ]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widths[max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))] -= 1
    return widths


def _breakable(text: str) -> str:
    """Return a text with blanks after the commas of a list, at which a line may end."""
    return re.sub(r",(?=\S)", ", ", text)


def _fit_cell(cell: Text, room: int) -> Text:
    """Return a cell broken into lines of its column, where it needs several: between words, or after commas."""
    from rich.cells import cell_len
    from rich.text import Text

    if cell_len(cell.plain) <= room:
        return cell
    too_long = any(cell_len(word) > room for word in units(cell.plain))
    text = _breakable(cell.plain) if too_long else cell.plain
    return Text("\n".join(part for line in text.split("\n") for part in wrap(line, room)), style=cell.style)


def _write_records(headings: Sequence[str], rows: Sequence[Sequence[Text]], title: str, caption: Sequence[str]) -> None:
    """Write a table that is too wide for the terminal row by row, a line for each cell."""
    if title:
        write(title)
    for row in rows:
        name, *cells = (cell.plain for cell in row)
        write(name or headings[0])
        for heading, cell in zip(headings[1:], cells, strict=True):
            if cell:
                write(f"  {heading}: {' '.join(cell.split())}")
    for line in caption:
        write(line)


def _shorten(table: TextTable, heading: str, cell: str) -> str:
    """Return a cell as people read it at a terminal; a file has it whole."""
    return table.short[heading](cell) if heading in table.short and sys.stdout.isatty() else cell

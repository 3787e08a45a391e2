"""A table for people, said once: a result names its columns and values, and printers turn them into text.

There are three: the terminal (``cli.table_printing``), pages and notebooks (``html_table``), and Markdown
(``markdown_table``). Numbers without a form of their own have three digits at a terminal, and four elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.estimates import MISSING, Estimate, Form, write_number, write_plainly
from bathyscope.core.text import elided, legible, literal_markdown, true_minus

if TYPE_CHECKING:
    import pandas as pd

THREE_DIGITS: Final = ".3g"


@dataclass(frozen=True)
class TextTable:
    """A table for people.

    Args:
        rows: cells: texts, numbers, estimates, None or NaN for what is missing; at a terminal rich texts for colour.
        title: above the table.
        caption: lines below the table.
        optional: headings of columns that a narrow terminal leaves out, the first ones first.
        forms: heading → how the column's numbers are written.
        short: heading → makes the column's texts shorter, where people read them at a terminal.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    caption: Sequence[str] = ()
    optional: Sequence[str] = ()
    forms: Mapping[str, Form] = field(default_factory=dict)
    short: Mapping[str, Callable[[str], str]] = field(default_factory=dict)

    def cells(self, usual: Form = write_plainly, as_number: Callable[[str], str] = str) -> list[list[str]]:
        """Return every cell as text.

        Args:
            usual: how numbers of columns without a form are written.
            as_number: is applied to the text of every number.
        """
        return [
            [
                _write_cell(value, self.forms.get(heading), usual, as_number)
                for heading, value in zip(self.headings, row, strict=True)
            ]
            for row in self.rows
        ]


def _write_cell(value: Any, form: Form | None, usual: Form, as_number: Callable[[str], str]) -> str:
    if isinstance(value, Estimate):
        return as_number(value.write(form or usual))
    if value is None or value != value:
        return MISSING
    # counts stay as they are where the usual form is one of real numbers
    is_plain = isinstance(value, bool) or (isinstance(value, Integral) and form is None and isinstance(usual, str))
    if is_plain or not isinstance(value, Real):
        return legible(value)
    return as_number(write_number(float(value), form or usual))


def frame_table(frame: pd.DataFrame, title: str = "") -> TextTable:
    """Return a table for people under the names of a frame's columns."""
    headings = [str(name).replace("_", " ") for name in frame.columns]
    # whole numbers of which some are missing have a missing value of pandas' own
    values = frame.astype(object).where(frame.notna(), None)
    return TextTable(headings, list(values.itertuples(index=False, name=None)), title)


def html_cells(table: TextTable) -> list[list[str]]:
    """Return the cells as pages show them, numbers with minus signs; a template escapes them."""
    return table.cells(as_number=true_minus)


def html_table(
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    kind: str = "",
    most: int | None = None,
    letters: int | None = None,
) -> str:
    """Return a table in HTML; nothing in its texts acts.

    Args:
        headings: of the columns; empty for pairs of a name and a value.
        kind: class of the table in a page.
        most: rows; those beyond it are counted. None = all.
        letters: of a cell; None = all.
    """
    listed = list(rows)

    def write(cell: object) -> str:
        return escape(legible(cell) if letters is None else elided(cell, letters))

    head = "".join(f'<th scope="col">{write(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{write(name)}</th>{"".join(f"<td>{write(cell)}</td>" for cell in cells)}</tr>\n'
        for name, *cells in listed[:most]
    )
    look = f' class="{escape(kind)}"' if kind else ""
    table = "\n".join(
        [
            f"<table{look}>",
            *([f"<thead><tr>{head}</tr></thead>"] if headings else []),
            f"<tbody>\n{body}</tbody>",
            "</table>",
        ]
    )
    more = len(listed) - len(listed[:most])
    return table + (f"<p>… and {more} more.</p>" if more else "")


def markdown_table(headings: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table in Markdown; nothing in its cells acts."""
    head, *body = (f"| {' | '.join(map(literal_markdown, row))} |" for row in (headings, *rows))
    return [head, f"|{'---|' * len(headings)}", *body]


def markdown_of(tables: Sequence[TextTable]) -> list[str]:
    """Return the lines of tables in Markdown, with titles and captions, each behind an empty line."""
    lines = []
    for table in tables:
        title = ["", f"**{literal_markdown(table.title)}**"] if table.title else []
        captions = [line for text in table.caption for line in ("", literal_markdown(text))]
        lines += [*title, "", *markdown_table(table.headings, table.cells()), *captions]
    return lines

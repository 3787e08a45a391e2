"""A table for people, said once: a result names its columns and values, and printers turn them into text.

There are three: the terminal (``cli.console``), pages and notebooks (``html_cells``, ``core.text.html_table``), and
Markdown (``markdown_of``). Numbers without a form of their own have three digits at a terminal, and four elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

from bathyscope.core.estimates import MISSING, Estimate, Form, write_number, write_plainly
from bathyscope.core.text import legible, literal_markdown, markdown_table, true_minus

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


def markdown_of(tables: Sequence[TextTable]) -> list[str]:
    """Return the lines of tables in Markdown, with titles and captions, each behind an empty line."""
    lines = []
    for table in tables:
        title = ["", f"**{literal_markdown(table.title)}**"] if table.title else []
        captions = [line for text in table.caption for line in ("", literal_markdown(text))]
        lines += [*title, "", *markdown_table(table.headings, table.cells()), *captions]
    return lines

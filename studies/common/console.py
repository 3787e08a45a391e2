"""What programs of studies write: results to standard output, messages to standard error."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["table", "csv", "json"]
"""Of a program's results."""
_NUMBER: Final = re.compile(r"\s*[-+−–\d.]|\s*$")
"""How cells of a column begin that stands at the right."""


def say(text: str, quiet: bool = False) -> None:
    """A message for the person at the terminal."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def write(text: str) -> None:
    """A line of results for people."""
    print(text)


def capitalised(text: str) -> str:
    """A text that begins a sentence; ``str.capitalize`` would take the capitals from its names."""
    return text[:1].upper() + text[1:]


def write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table for people, numbers at the right."""
    if title:
        write(title)
    columns = list(zip(headings, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    at_right = [all(_NUMBER.match(cell) for cell in column[1:]) for column in columns]
    for row in (headings, *rows):
        cells = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, at_right)]
        write(f" {'  '.join(cells)}".rstrip())


def write_data(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, format_: Format) -> bool:
    """Records as CSV or JSON, missing numbers empty or null; False for a table, which is left undone."""
    if format_ == "table":
        return False
    import pandas as pd

    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), dtype=object)
    if format_ == "csv":
        write(frame.to_csv(index=False, lineterminator="\n").rstrip("\n"))
    else:
        # each record with the names that it has, and not with those of all
        records: Any = frame.to_dict("records") if isinstance(rows, pd.DataFrame) else rows
        lines = ",\n".join(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) for row in records)
        write(f"[\n{lines}\n]" if lines else "[]")
    return True


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A record as JSON can hold it: Python's own numbers, and null for those that are missing."""
    own = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    return {n: None if isinstance(value, float) and not math.isfinite(value) else value for n, value in own.items()}


@contextmanager
def quiet_libraries(downloads: bool = True) -> Iterator[None]:
    """Hides what transformers reports while it loads, and its bars.

    Args:
        downloads: still show the bars of downloads at a terminal; they may take long.
    """
    from huggingface_hub.utils import enable_progress_bars
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if downloads and sys.stderr.isatty():
        enable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()

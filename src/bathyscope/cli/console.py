"""Two channels: results, and nothing else, go to standard output; whatever is said goes to standard error."""

from __future__ import annotations

import csv
import json
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TextIO

from bathyscope.cli import session

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

Format = Literal["table", "csv", "json"]
"""Of a command's results."""

_PIPE_WIDTH = 160


def say(text: str, quiet: bool = False) -> None:
    """One message for the person at the terminal."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def write(text: str) -> None:
    """A line of results."""
    print(text)


def write_table(table: Table) -> None:
    """A table, as wide as the terminal, or wide enough for a file where there is none."""
    from rich.console import Console

    Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def write_data(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, format_: Format) -> bool:
    """Records as CSV or JSON, missing numbers empty or null; False for a table, which the command draws itself."""
    if format_ == "table":
        return False
    if not isinstance(rows, Sequence):
        if format_ == "csv":
            rows.to_csv(sys.stdout, index=False)
        else:
            write_json(rows.astype(object).where(rows.notna(), None).to_dict("records"))
    elif format_ == "json":
        write_json(rows)
    elif rows:
        names = dict.fromkeys(name for row in rows for name in row)
        writer = csv.DictWriter(sys.stdout, list(names), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if value != value else value for key, value in row.items()} for row in rows)
    return True


def write_json(value: Any) -> None:
    """A JSON document; a list of records gets a line each. NaN and infinities are null."""
    value = plain(value)
    if isinstance(value, list):
        lines = ",\n".join(json.dumps(item, ensure_ascii=False, allow_nan=False) for item in value)
        print(f"[\n{lines}\n]" if value else "[]")
    else:
        print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """``value`` in JSON's own types: arrays and tuples as lists, numbers that are not finite as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Warnings become one line each; those meant for programmers are left out unless debugging."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if session.current().debug:
            say(warnings.formatwarning(message, category, filename, lineno, line).rstrip())
        elif not issubclass(category, FutureWarning | DeprecationWarning | PendingDeprecationWarning):
            say(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def quiet_libraries(downloads: bool = True) -> Iterator[None]:
    """Keeps transformers' load reports and progress bars away unless debugging.

    Args:
        downloads: still show the bars of downloads at a terminal; they may take long.
    """
    if session.current().debug:
        yield
        return
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

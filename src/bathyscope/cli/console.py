"""Two channels: results, and nothing else, go to standard output; whatever is said goes to standard error."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from bathyscope.cli import session
from bathyscope.core.strict import plain
from bathyscope.core.text import shown
from bathyscope.errors import BathyscopeError

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text

Format = Literal["table", "csv", "json"]
"""Of a command's results."""

_PIPE_WIDTH = 160
_NUMBER = re.compile(r"\s*[-+−–<≠=·\d.]|\s*$")
_STAND_INS = str.maketrans(
    {"–": "-", "−": "-", "×": "x", "≠": "!=", "≤": "<=", "≥": ">=", "→": "->", "…": "...", "·": ".", "²": "^2"}
    | {"±": "+-", "Σ": "sum", "‖": "|", "─": "-", "━": "-", "’": "'"}
)


class OutputError(BathyscopeError):
    """Standard output cannot be written."""


def prepare_streams() -> None:
    """Closed streams swallow what is written; what an encoding lacks is written as an escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or getattr(stream, "closed", False):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def drop_output() -> None:
    """What is still buffered must not raise again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush() -> None:
    """Everything is on standard output.

    Raises:
        OutputError: it cannot be written, such as where the disk is full.
        BrokenPipeError: its reader has closed it.
    """
    with _output():
        sys.stdout.flush()


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"Standard output cannot be written ({error.strerror}); make room, or send it elsewhere."
        ) from error


def say(text: str, quiet: bool = False, level: session.Level = "info", values: Mapping[str, Any] | None = None) -> None:
    """One message for the person at the terminal, or for a log.

    Args:
        level: messages below that of the invocation are left out.
        values: what it tells in numbers, for logs in JSON.
    """
    if quiet or not session.shows(level):
        return
    if session.current().as_json:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        told = {"time": now, "level": level, "message": text.removeprefix(f"{level}: "), **(values or {})}
        print(json.dumps(plain(told)), file=sys.stderr, flush=True)
    else:
        print(_legible(text, sys.stderr), file=sys.stderr, flush=True)


class _Lines(logging.Handler):
    """Says what is logged, such as how far work is."""

    def emit(self, record: logging.LogRecord) -> None:
        level: session.Level = "info" if record.levelno < logging.WARNING else "warning"
        say(record.getMessage(), level=level, values=getattr(record, "values", None))


@contextmanager
def logged_as_lines() -> Iterator[None]:
    """Inside, ``log_lines`` has its effect."""
    logger = logging.getLogger("bathyscope")
    level, propagate = logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers = [one for one in logger.handlers if not isinstance(one, _Lines)]
        logger.level, logger.propagate = level, propagate


def log_lines(level: session.Level, as_json: bool) -> None:
    """Messages of this invocation from a level on, as lines of text or of JSON; progress is among them."""
    session.log(level, as_json)
    logger = logging.getLogger("bathyscope")
    logger.addHandler(_Lines())
    logger.level, logger.propagate = logging.INFO, False


def write(text: str) -> None:
    """A line of results for people; control characters that data bring along are shown as escapes."""
    _put(_legible(text, sys.stdout))


def write_rows(rows: Sequence[Mapping[str, Any]], format_: Format, remark: str = "") -> None:
    """Records in any format; as a table under the names of their fields, with a remark below it."""
    if write_data(rows, format_):
        return
    if rows:
        write_table([name.replace("_", " ") for name in rows[0]], [list(row.values()) for row in rows])
    if remark:
        write(remark)


def width() -> int:
    """Columns of the terminal, or enough for a file where there is none."""
    from rich.console import Console

    return Console(file=sys.stdout).width if sys.stdout.isatty() else _PIPE_WIDTH


def write_table(
    headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", caption: Sequence[str] = ()
) -> None:
    """A table for people, as wide as the terminal, or wide enough for a file where there is none.

    Args:
        rows: cells: texts, numbers (shown with three digits), None or NaN for what is missing, rich texts for colour.
        caption: lines below the table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.title, table.caption = Text(shown(title)) if title else None, Text(shown("\n".join(caption), "\n"))
    table.title_justify = table.caption_justify = "left"
    columns = width()
    texts = [[shown(heading), *(row[number].plain for row in cells)] for number, heading in enumerate(headings)]
    widths = _widths(texts, columns - 2 * len(headings))
    for number, heading in enumerate(headings):
        figures = all(_NUMBER.match(row[number].plain) for row in cells)
        table.add_column(
            Text(shown(heading)),
            justify="right" if figures else "left",
            overflow="fold",
            width=widths[number],
        )
    for line in cells:
        table.add_row(*(_fitting(cell, room) for cell, room in zip(line, widths, strict=True)))
    drawn = io.StringIO()
    terminal = sys.stdout.isatty()
    Console(file=drawn, width=columns, force_terminal=terminal, safe_box=True, emoji=False).print(table)
    _put(_in_glyphs("\n".join(line.rstrip() for line in drawn.getvalue().splitlines()), sys.stdout))


def write_data(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, format_: Format) -> bool:
    """Records as CSV or JSON, missing numbers empty or null; False for a table, which the command draws itself."""
    if format_ == "table":
        return False
    if format_ == "csv":
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), dtype=object)
        _put(frame.to_csv(index=False, lineterminator="\n").rstrip("\n"), exactly=True)
    elif isinstance(rows, Sequence):
        write_json(rows)
    else:
        write_json(rows.astype(object).where(rows.notna(), None).to_dict("records"))
    return True


def write_json(value: Any) -> None:
    """A JSON document; a list of records gets a line each. NaN and infinities are null."""
    value = plain(value)
    if isinstance(value, list):
        lines = ",\n".join(_json(item) for item in value)
        _put(f"[\n{lines}\n]" if value else "[]", exactly=True)
    else:
        _put(_json(value, indent=2), exactly=True)


def _json(value: Any, indent: int | None = None) -> str:
    # escapes are exact JSON, where another encoding has no such characters and a terminal would obey them
    escaped = sys.stdout.isatty() or not _is_unicode(sys.stdout)
    return json.dumps(value, indent=indent, ensure_ascii=escaped, allow_nan=False)


def _widths(texts: Sequence[Sequence[str]], room: int) -> Sequence[int | None]:
    """Letters of every column, of which the widest give way first and none breaks a word; None where some must."""
    from rich.cells import cell_len

    widths = [max(cell_len(text) for text in own) for own in texts]
    least = [max(cell_len(word) for text in own for word in _breakable(text).split() or [""]) for own in texts]
    if sum(least) > room:
        return [None] * len(texts)
    while sum(widths) > room:
        widths[max(range(len(widths)), key=lambda one: (widths[one] > least[one], widths[one]))] -= 1
    return widths


def _breakable(text: str) -> str:
    """With blanks behind the commas of a list, at which a line may end."""
    return re.sub(r",(?=\S)", ", ", text)


def _fitting(cell: Text, room: int | None) -> Text:
    """A cell whose lists of one word end their lines behind commas where they take several."""
    from rich.cells import cell_len
    from rich.text import Text

    too_long = room is None or any(cell_len(word) > room for word in cell.plain.split())
    return Text(_breakable(cell.plain), style=cell.style) if too_long and "," in cell.plain else cell


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else shown(value)


def _put(text: str, exactly: bool = False) -> None:
    """To standard output; data for programs exactly as they are, unless a terminal would obey what they hold."""
    with _output():
        print(shown(text, "\n\t") if exactly and sys.stdout.isatty() else text)


def _legible(text: str, stream: TextIO) -> str:
    return _in_glyphs(shown(text, "\n\t"), stream)


def _in_glyphs(text: str, stream: TextIO) -> str:
    """With stand-ins for the signs of tables and formulas where the stream's encoding lacks them."""
    return text if _is_unicode(stream) else text.translate(_STAND_INS)


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().startswith("utf")


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
            say(f"warning: {' '.join(str(message).split())}", level="warning")

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

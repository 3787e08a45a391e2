"""Two channels: results, and nothing else, go to standard output; all messages go to standard error."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from bathyscope.cli import session
from bathyscope.cli.wrapping import units, wrap
from bathyscope.core.csv_text import csv_text
from bathyscope.core.strict import plain
from bathyscope.core.tables import THREE_DIGITS, TextTable
from bathyscope.core.text import shown
from bathyscope.errors import BathyscopeError

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text

Format = Literal["table", "csv", "json"]
"""Of a command's results."""

_PIPE_WIDTH = 160
_NARROWEST = 20
"""Columns: in fewer the libraries that lay out help and tables do not end, or break every word."""
_NUMBER = re.compile(r"\s*[-+−–<≠=·\d.]|\s*$")
_STAND_INS = str.maketrans(
    {"–": "-", "−": "-", "×": "x", "≠": "!=", "≤": "<=", "≥": ">=", "→": "->", "…": "...", "·": ".", "²": "^2"}
    | {"±": "+-", "Σ": "sum", "‖": "|", "─": "-", "━": "-", "’": "'"}
)


class OutputError(BathyscopeError):
    """Standard output cannot be written."""


def prepare_streams() -> None:
    """Let closed streams swallow what is written, and write as an escape what an encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or getattr(stream, "closed", False):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        # A name of a file may hold bytes that the terminal's encoding lacks, and printing it must not end a survey.
        elif getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def widen_terminal() -> None:
    """Lay out help and tables in no fewer columns than words need, however narrow the terminal says it is."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        is_narrow = int(columns) < _NARROWEST
    else:
        # a terminal that does not know its width says 0
        is_narrow = 0 < shutil.get_terminal_size((_NARROWEST, 24)).columns < _NARROWEST
    if is_narrow:
        os.environ["COLUMNS"] = str(_NARROWEST)


def drop_output() -> None:
    """Drop what is still buffered, which would raise again when the interpreter ends."""
    # The interpreter flushes standard output once more when it ends, and a closed pipe raises then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush() -> None:
    """Write out everything that is buffered for standard output.

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
    """Write one message for the person at the terminal, or for a log.

    Args:
        level: messages below that of the invocation are left out.
        values: its numbers, for logs in JSON.
    """
    if quiet or not session.shows(level):
        return
    # Machines that read logs also want to know when, and numbers as numbers.
    if session.current().as_json:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"time": now, "level": level, "message": text.removeprefix(f"{level}: "), **(values or {})}
        print(json.dumps(plain(entry)), file=sys.stderr, flush=True)
    else:
        print(_make_legible(_wrap_lines(text, sys.stderr), sys.stderr), file=sys.stderr, flush=True)


class _LineHandler(logging.Handler):
    """Writes what is logged, such as progress, as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        level: session.Level = "info" if record.levelno < logging.WARNING else "warning"
        say(record.getMessage(), level=level, values=getattr(record, "values", None))


@contextmanager
def logged_as_lines() -> Iterator[None]:
    """Let ``log_lines`` have its effect inside."""
    logger = logging.getLogger("bathyscope")
    level, propagate = logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, _LineHandler)]
        logger.level, logger.propagate = level, propagate


def log_lines(level: session.Level, as_json: bool) -> None:
    """Write this invocation's messages from a level on, progress included, as lines of text or of JSON."""
    session.log(level, as_json)
    logger = logging.getLogger("bathyscope")
    logger.addHandler(_LineHandler())
    logger.level, logger.propagate = logging.INFO, False


def write(text: str) -> None:
    """Write a line of results for people; control characters in data are shown as escapes.

    At a terminal long lines end between words; in a file they stay whole, for programs that read lines.
    """
    _print(_make_legible(_wrap_lines(text, sys.stdout), sys.stdout))


def _wrap_lines(text: str, stream: TextIO) -> str:
    if not stream.isatty():
        return text
    from rich.console import Console

    width = Console(file=stream).width
    return "\n".join(part for line in text.split("\n") for part in wrap(line, width))


def is_terminal() -> bool:
    """Return whether people read standard output as it is written, and not a program or a file."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Return the columns of the terminal, or enough for a file where there is no terminal."""
    from rich.console import Console

    return Console(file=sys.stdout).width if sys.stdout.isatty() else _PIPE_WIDTH


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
        _write_records([shown(heading) for heading in headings], texts, title, caption)
        return
    missing = [heading for heading in headings if heading not in narrowed.headings]
    headings, cells, widths = narrowed
    if title:
        write(title)
    for number, heading in enumerate(headings):
        figures = all(_NUMBER.match(row[number].plain) for row in cells)
        grid.add_column(
            Text("\n".join(wrap(shown(heading), widths[number]))),
            justify="right" if figures else "left",
            width=widths[number],
        )
    for row in cells:
        grid.add_row(*(_fit_cell(cell, room) for cell, room in zip(row, widths, strict=True)))
    page = io.StringIO()
    terminal = sys.stdout.isatty()
    Console(file=page, width=columns, force_terminal=terminal, safe_box=True, emoji=False).print(grid)
    _print(_replace_glyphs("\n".join(line.rstrip() for line in page.getvalue().splitlines()), sys.stdout))
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
        texts = [[shown(headings[number]), *(row[number].plain for row in cells)] for number in remaining]
        widths = _fit_widths(texts, columns - 2 * len(remaining))
        if widths is not None:
            rows = [[row[number] for number in remaining] for row in cells]
            return _Fitted([headings[number] for number in remaining], rows, widths)
    return None


def write_data(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, format_: Format) -> bool:
    """Write records as CSV or JSON, missing numbers empty or null; return False for a table, which is left undone."""
    if format_ == "table":
        return False
    if format_ == "csv":
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), dtype=object)
        _print(csv_text(frame).rstrip("\n"), exactly=True)
    elif isinstance(rows, Sequence):
        write_json(rows)
    else:
        write_json(rows.astype(object).where(rows.notna(), None).to_dict("records"))
    return True


def write_json(value: Any) -> None:
    """Write a JSON document, a list of records with a line each. NaN and infinities are null."""
    value = plain(value)
    if isinstance(value, list):
        lines = ",\n".join(_encode_json(item) for item in value)
        _print(f"[\n{lines}\n]" if value else "[]", exactly=True)
    else:
        _print(_encode_json(value, indent=2), exactly=True)


def _encode_json(value: Any, indent: int | None = None) -> str:
    # Escapes are exact JSON, also where another encoding lacks the characters or a terminal would obey them.
    escaped = sys.stdout.isatty() or not _is_unicode(sys.stdout)
    return json.dumps(value, indent=indent, ensure_ascii=escaped, allow_nan=False)


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


def _print(text: str, exactly: bool = False) -> None:
    if session.current().silent:
        return
    """Write to standard output; data for programs exactly as they are, unless a terminal would obey them."""
    with _output():
        print(shown(text, "\n\t") if exactly and sys.stdout.isatty() else text)


def _make_legible(text: str, stream: TextIO) -> str:
    return _replace_glyphs(shown(text, "\n\t"), stream)


def _replace_glyphs(text: str, stream: TextIO) -> str:
    """Return a text with stand-ins for the signs of tables and formulas that the stream's encoding lacks."""
    return text if _is_unicode(stream) else text.translate(_STAND_INS)


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().startswith("utf")


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Turn warnings into one line each; those meant for programmers are left out unless debugging."""

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
    """Hide transformers' load reports and progress bars unless debugging.

    Args:
        downloads: still show the bars of downloads at a terminal; they may take long.
    """
    if session.current().debug:
        yield
        return
    # Both libraries print reports of their own while they load, which would drown the command's messages.
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

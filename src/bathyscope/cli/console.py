"""Two channels: results, and nothing else, go to standard output; all messages go to standard error."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

from bathyscope.cli import session
from bathyscope.cli.wrapping import wrap
from bathyscope.core.csv_text import csv_text
from bathyscope.core.strict import plain
from bathyscope.core.text import legible
from bathyscope.errors import BathyscopeError

if TYPE_CHECKING:
    import pandas as pd


Format = Literal["table", "csv", "json"]
"""Of a command's results."""

_PIPE_WIDTH = 160
NARROWEST = 20
"""Columns: in fewer the libraries that lay out help and tables do not end, or break every word."""
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
        is_narrow = int(columns) < NARROWEST
    else:
        # a terminal that does not know its width says 0
        is_narrow = 0 < shutil.get_terminal_size((NARROWEST, 24)).columns < NARROWEST
    if is_narrow:
        os.environ["COLUMNS"] = str(NARROWEST)


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
    print_text(_make_legible(_wrap_lines(text, sys.stdout), sys.stdout))


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


def write_data(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, format_: Format) -> bool:
    """Write records as CSV or JSON, missing numbers empty or null; return False for a table, which is left undone."""
    if format_ == "table":
        return False
    if format_ == "csv":
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), dtype=object)
        print_text(csv_text(frame).rstrip("\n"), exactly=True)
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
        print_text(f"[\n{lines}\n]" if value else "[]", exactly=True)
    else:
        print_text(_encode_json(value, indent=2), exactly=True)


def _encode_json(value: Any, indent: int | None = None) -> str:
    # Escapes are exact JSON, also where another encoding lacks the characters or a terminal would obey them.
    escaped = sys.stdout.isatty() or not _is_unicode(sys.stdout)
    return json.dumps(value, indent=indent, ensure_ascii=escaped, allow_nan=False)


def print_text(text: str, exactly: bool = False) -> None:
    """Write to standard output; data for programs exactly as they are, unless a terminal would obey them."""
    if session.current().silent:
        return
    with _output():
        print(legible(text, "\n\t") if exactly and sys.stdout.isatty() else text)


def _make_legible(text: str, stream: TextIO) -> str:
    return replace_glyphs(legible(text, "\n\t"), stream)


def replace_glyphs(text: str, stream: TextIO) -> str:
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

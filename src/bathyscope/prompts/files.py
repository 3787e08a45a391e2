"""Reading prompt files: text (plain or gzipped) and rows of a table, with errors that name the file."""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from bathyscope.errors import PromptError, did_you_mean
from bathyscope.strict import read_json

Row = Mapping[str, Any]


@contextmanager
def open_text(path: str | Path) -> Iterator[TextIO]:
    """Open a UTF-8 text file, gzipped where its name ends in ``.gz``; a byte order mark is skipped.

    Raises:
        PromptError: no such file, unreadable, not UTF-8, or damaged compression; also where that shows only
            while the file is being read inside the ``with`` block.
    """
    path = Path(path)
    check_exists(path)
    opener: Callable[..., TextIO] = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            yield file
    except UnicodeDecodeError as error:
        raise PromptError(f"{path} is not UTF-8 text ({error.reason}); convert it to UTF-8.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise PromptError(f"{path} cannot be read: {str(error).rstrip('.')}. Copy or download it anew.") from error
    except OSError as error:
        raise PromptError(f"{path} cannot be read: {error}.") from error


def read_rows(path: str | Path) -> Iterator[Row]:
    """Rows of a ``.jsonl``, ``.csv`` (either may be gzipped) or ``.parquet`` file, one dict each, in order.

    Values of a CSV file are strings; those of the other two have the types the file gives them.

    Raises:
        PromptError: unknown kind of file, unreadable file, or a line that is not a JSON object.
    """
    path = Path(path)
    readers = {
        ".jsonl": _read_jsonl,
        ".jsonl.gz": _read_jsonl,
        ".csv": _read_csv,
        ".csv.gz": _read_csv,
        ".parquet": _read_parquet,
    }
    reader = next((reader for suffix, reader in readers.items() if path.name.endswith(suffix)), None)
    if reader is None:
        raise PromptError(f"{path}: unknown kind of file; allowed: {', '.join(readers)}.")
    check_exists(path)
    return reader(path)


def check_exists(path: Path) -> None:
    """Refuse a path that is no file.

    Raises:
        PromptError: it is missing (with the likeliest name beside it) or a folder.
    """
    if path.is_dir():
        raise PromptError(f"{path} is a folder; give a file.")
    if not path.exists():
        folder = path.parent
        siblings = [item.name for item in folder.iterdir()] if folder.is_dir() else []
        where = "" if folder.is_dir() else f" (nor does the folder {folder})"
        raise PromptError(f"{path} does not exist{where}.{did_you_mean(path.name, siblings)} Check the path.")


def require_folder(path: Path) -> None:
    """Refuse a path that is no folder.

    Raises:
        PromptError: it is missing, or a file.
    """
    if not path.is_dir():
        raise PromptError(f"There is no folder {str(path)!r}; a source that ends in / is a folder of texts.")


def _read_jsonl(path: Path) -> Iterator[Row]:
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = read_json(line)
            except json.JSONDecodeError as error:
                where = f"{path}, line {number}, character {error.pos + 1}"
                raise PromptError(f"{where}: not JSON ({error.msg}); each line is one object.") from error
            except ValueError as error:
                raise PromptError(f"{path}, line {number}: {error}.") from error
            if not isinstance(row, dict):
                raise PromptError(
                    f'{path}, line {number}: a JSON object is needed, such as {{"text": "…"}}, '
                    f"not {type(row).__name__}."
                )
            yield row


def _read_csv(path: Path) -> Iterator[Row]:
    with open_text(path) as file:
        try:
            yield from csv.DictReader(file)
        except csv.Error as error:
            raise PromptError(f"{path} is not a CSV table: {error}.") from error


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise PromptError(f"{path} is not a readable parquet file: {error}.") from error

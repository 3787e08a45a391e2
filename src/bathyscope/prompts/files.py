"""Files of prompts: text (plain or gzipped), and rows of a table.

Errors name the file.
"""

import csv
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, TextIO

from bathyscope.core.expanding import require_unpacking, unpacked
from bathyscope.core.foreign import UnsafeFileError, open_regular, require_regular
from bathyscope.core.paths import similar_file
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import PromptError

Row = Mapping[str, Any]

_MOST_COLUMNS: Final = 4096
"""Of a parquet file."""
_FEWEST_ROWS: Final = 8
_MOST_ROWS: Final = 1024
"""Of a parquet file, unpacked together."""
_AT_ONCE: Final = 1 << 28
"""Bytes that they may take, where every row has the largest value of its column."""

_OPENED: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Beginnings of the names of what is open in this program already."""


@contextmanager
def open_text(path: str | Path, inside: Path | None = None) -> Iterator[TextIO]:
    """Open a UTF-8 text file, gzipped where its name ends in ``.gz``; a byte order mark is skipped.

    Whatever is wrong with it is a PromptError, also where that shows only while it is read inside the ``with`` block.
    Nobody is waited for: of pipes, only what the user has opened for this program is read (``/dev/stdin``,
    ``<(command)``).

    Args:
        path: of the file.
        inside: the folder that it was found in; a link that leaves it is refused. None = a path that a user gave.
    """
    path = Path(path)
    check_exists(path)
    try:
        # Errors of decoding and of gzip come while the caller reads, inside of this block.
        with ExitStack() as stack:
            is_piped = inside is None and path.as_posix().startswith(_OPENED)
            stream: Any = stack.enter_context(path.open("rb") if is_piped else open_regular(path, inside))
            if path.suffix.lower() == ".gz":
                stream = stack.enter_context(unpacked(path, stream))
            yield stack.enter_context(TextIOWrapper(stream, encoding="utf-8-sig"))
    except UnsafeFileError as error:
        raise PromptError(
            f"{path} cannot be read: {error.strerror}. Give a file that holds the text itself."
        ) from error
    except UnicodeDecodeError as error:
        raise PromptError(f"{path} is not UTF-8 text ({error.reason}); convert it to UTF-8.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise PromptError(f"{path} cannot be read: {str(error).rstrip('.')}. Copy or download it again.") from error
    except OSError as error:
        raise PromptError(f"{path} cannot be read: {error}.") from error


def read_rows(path: str | Path) -> Iterator[Row]:
    """Rows of a file, one dict each, in order: JSON, JSONL, CSV or TSV (gzipped too) or parquet.

    Values of CSV and TSV files are strings; those of the others have the types the file gives them.
    """
    path = Path(path)
    check_exists(path)
    name = path.name.lower()
    reader = next((reader for suffix, reader in _READERS.items() if name.endswith(suffix)), None)
    if reader is None:
        raise PromptError(f"{path}: unknown kind of file; allowed: {', '.join(_READERS)}.")
    return reader(path)


_SHOWN = 200
"""Letters of a path that a message repeats."""


def check_exists(path: Path) -> None:
    """Refuse a path that is missing (suggesting the likeliest name) or a folder."""
    # os.path, not Path, which raises where a name is too long for a file
    if os.path.isdir(path):
        raise PromptError(f"{path} is a folder; give a file.")
    if not os.path.exists(path):
        if os.path.islink(path):
            raise PromptError(f"{path} is a link that leads to no file. Check where it leads.")
        where = "" if os.path.isdir(path.parent) else f" (nor does the folder {elided(str(path.parent), _SHOWN)})"
        raise PromptError(f"{elided(str(path), _SHOWN)} does not exist{where}.{similar_file(path)} Check the path.")


def saved_data_set(folder: str | Path) -> str:
    """Return in words how to read a folder of ``datasets.save_to_disk``; empty for any other folder, or none."""
    place = Path(folder)
    is_dict = os.path.isfile(place / "dataset_dict.json")
    if not is_dict and not (os.path.isfile(place / "state.json") and os.path.isfile(place / "dataset_info.json")):
        return ""
    splits = sorted(path.parent.name for path in place.glob("*/state.json"))
    split = "train" if "train" in splits or not splits else splits[0]
    loaded = f"datasets.load_from_disk({str(place)!r})" + (f"[{split!r}]" if is_dict else "")
    return (
        f"the folder {str(place)!r} is a data set that datasets.save_to_disk wrote, which no source reads. Save it as "
        f"a file, {loaded}.to_json('prompts.jsonl'), or give {loaded} as the prompts in Python."
    )


def require_folder(path: Path) -> None:
    """Refuse a path that is no folder."""
    if not os.path.isdir(path):
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


def _read_json(path: Path) -> Iterator[Row]:
    """Rows of a JSON list; a file of this name that holds an object a line is read by lines, as some tools write it."""
    with open_text(path) as file:
        start = file.read(1)
        while start.isspace():
            start = file.read(1)
        text = start + file.read() if start == "[" else None
    if text is None:
        yield from _read_jsonl(path)
        return
    try:
        rows = read_json(text)
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, character {error.colno}"
        raise PromptError(f"{where}: not JSON ({error.msg}); copy or download it again.") from error
    except ValueError as error:
        raise PromptError(f"{path}: {error}.") from error
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise PromptError(f"{path}, entry {number}: a JSON object is needed, not {type(row).__name__}.")
        yield row


def _read_tsv(path: Path) -> Iterator[Row]:
    return _read_csv(path, "\t")


def _read_csv(path: Path, separator: str = ",") -> Iterator[Row]:
    with open_text(path) as file:
        try:
            # strict: a quote that is never closed would take all that follows for one value
            table = csv.DictReader(file, strict=True, delimiter=separator)
            names = table.fieldnames or ()
            if separator == ",":
                _require_commas(path, names)
            require_distinct(path, names)
            for row in table:
                if None in row:
                    raise PromptError(
                        f"{path}, line {table.line_num}: more values than the {len(names)} columns; put a value that "
                        f"holds {'commas' if separator == ',' else 'tabs'} in double quotes."
                    )
                yield row
        except csv.Error as error:
            raise PromptError(f"{path} is not a CSV table: {error}.") from error


def _require_commas(path: Path, columns: Sequence[str]) -> None:
    """Refuse a table with one column whose name holds the separator of other dialects."""
    separator = next((sign for sign in ";\t|" if len(columns) == 1 and sign in columns[0]), None)
    if separator is not None:
        raise PromptError(
            f"{path}: its columns are separated by {separator!r}; write it with commas between them, and points in "
            "numbers."
        )


def require_distinct(table: Path | str, columns: Sequence[str]) -> None:
    """Refuse a table two of whose columns have one name, since a row would keep the last of them alone.

    Args:
        table: its path, or what messages call it.
    """
    repeated = next((name for name, times in Counter(columns).items() if name and times > 1), None)
    if repeated is not None:
        raise PromptError(
            f"{table} has {columns.count(repeated)} columns named {elided(repr(repeated), 40)}; keep one, or rename "
            "the others."
        )


def _require_few_columns(path: Path, columns: int) -> None:
    """Refuse a table of very many columns, each of which takes a reader as long as a thousand values."""
    if columns > _MOST_COLUMNS:
        raise PromptError(
            f"{path} has {columns:,} columns, and at most {_MOST_COLUMNS:,} are read. Write those that prompts are "
            "made of into a table of their own."
        )


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        require_regular(path)
        with pyarrow.parquet.ParquetFile(path) as file:
            require_distinct(path, file.schema_arrow.names)
            _require_few_columns(path, file.metadata.num_columns)
            for batch in file.iter_batches(batch_size=rows_at_once(path, file.metadata)):
                yield from batch.to_pylist()
    except UnsafeFileError as error:
        raise PromptError(f"{path} cannot be read: {error.strerror}. Give a parquet file itself.") from error
    # whatever a value's declared type makes of it, such as a time zone that nobody knows
    except (pyarrow.ArrowException, *DAMAGED) as error:
        raise PromptError(f"{path} is not a readable parquet file: {elided(error, 200).rstrip('.')}.") from error


def rows_at_once(path: Path, metadata: Any) -> int:
    """Return how many rows of a parquet file may be unpacked together: each may be its largest value again.

    Raises:
        UnsafeFileError: it says that it unpacks to more than tables do.
    """
    # of groups alone: the library ends the process where it is asked for a damaged column
    sizes = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    require_unpacking(path, os.path.getsize(path), sum(sizes))
    return max(_FEWEST_ROWS, min(_MOST_ROWS, _AT_ONCE // max([1, *sizes])))


_READERS: Final[Mapping[str, Callable[[Path], Iterator[Row]]]] = {
    ".jsonl": _read_jsonl,
    ".jsonl.gz": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".ndjson.gz": _read_jsonl,
    ".json": _read_json,
    ".json.gz": _read_json,
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".tsv": _read_tsv,
    ".tsv.gz": _read_tsv,
    ".parquet": _read_parquet,
}

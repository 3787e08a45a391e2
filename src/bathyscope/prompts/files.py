"""Prompt files: text (plain or gzipped), rows of a table, and our own: a JSON object a line with ``Prompt``'s fields.

Errors name the file.
"""

import csv
import difflib
import gzip
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

from bathyscope.core.expanding import unpacked
from bathyscope.core.foreign import UnsafeFileError, open_regular, require_regular
from bathyscope.core.paths import similar_file
from bathyscope.core.strict import read_json
from bathyscope.core.text import elided
from bathyscope.errors import PromptError, warn
from bathyscope.prompts.prompt import Prompt, require_words

Row = Mapping[str, Any]

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
            if path.suffix == ".gz":
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
    """Rows of a ``.jsonl``, ``.csv`` (either may be gzipped) or ``.parquet`` file, one dict each, in order.

    Values of a CSV file are strings; those of the other two have the types the file gives them.
    """
    path = Path(path)
    check_exists(path)
    readers = {
        ".jsonl": _read_jsonl,
        ".jsonl.gz": _read_jsonl,
        ".ndjson": _read_jsonl,
        ".ndjson.gz": _read_jsonl,
        ".csv": _read_csv,
        ".csv.gz": _read_csv,
        ".tsv": _read_tsv,
        ".tsv.gz": _read_tsv,
        ".parquet": _read_parquet,
    }
    reader = next((reader for suffix, reader in readers.items() if path.name.endswith(suffix)), None)
    if reader is None:
        raise PromptError(f"{path}: unknown kind of file; allowed: {', '.join(readers)}.")
    return reader(path)


def check_exists(path: Path) -> None:
    """Refuse a path that is missing (suggesting the likeliest name) or a folder."""
    # os.path, not Path, which raises where a name is too long for a file
    if os.path.isdir(path):
        raise PromptError(f"{path} is a folder; give a file.")
    if not os.path.exists(path):
        if os.path.islink(path):
            raise PromptError(f"{path} is a link that leads to no file. Check where it leads.")
        where = "" if os.path.isdir(path.parent) else f" (nor does the folder {path.parent})"
        raise PromptError(f"{path} does not exist{where}.{similar_file(path)} Check the path.")


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
            _require_distinct(path, names)
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


def _require_distinct(path: Path, columns: Sequence[str]) -> None:
    """Refuse a table two of whose columns have one name, since a row would keep the last of them alone."""
    repeated = next((name for name, times in Counter(columns).items() if name and times > 1), None)
    if repeated is not None:
        raise PromptError(
            f"{path} has {columns.count(repeated)} columns named {elided(repr(repeated), 40)}; keep one, or rename the "
            "others."
        )


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        require_regular(path)
        with pyarrow.parquet.ParquetFile(path) as file:
            _require_distinct(path, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except UnsafeFileError as error:
        raise PromptError(f"{path} cannot be read: {error.strerror}. Give a parquet file itself.") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise PromptError(f"{path} is not a readable parquet file: {error}.") from error


_NEAR = 0.8
"""As ``anwser`` is to ``answer``; ``digits`` is as near to ``ids`` as 0.67."""

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("prompt", "question", "input", "query", "instruction", "problem", "content", "sentence", "source"),
    "ids": ("input_ids", "token_ids", "tokens"),
    "answer": ("completion", "target", "output", "response", "solution"),
}
"""What the fields of a prompt are called in files of others."""

FIELDS = ("text", "ids", "answer", "answer_tokens", "id", "labels")


def read_prompts(path: str, *, count: int | None = None) -> tuple[Prompt, ...]:
    """Prompts of a JSONL file, in order; a PromptError with the number of a line that is none.

    Fields: ``text`` or ``ids``, ``answer`` or ``answer_tokens``, ``id``, ``labels`` (an object). Every other
    field that holds a text or a number is a label too; null and NaN are no value, and lists and objects are left aside
    with a warning.
    """
    # No more lines than are asked for are read, or can be wrong.
    rows = list(islice(read_rows(path), count))
    if not rows:
        raise PromptError(f'{path} holds no prompts; write one a line: {{"text": "…"}} or {{"ids": [1, 2]}}.')
    if count is not None and len(rows) < count:
        raise PromptError(f"{path} holds {len(rows)} prompts, {count} asked for; ask for at most {len(rows)}.")
    prompts = tuple(_prompt(row, f"{path}, prompt {number}") for number, row in enumerate(rows, start=1))
    # the text of a misspelt field would be missing from the prompt
    for name, meant in {name: meant for row in rows for name, meant in _misspelt(row).items()}.items():
        warn(f"{path}: {name!r} is no field of a prompt and is taken for a label. Did you mean {meant!r}?")
    aside = {name: None for row in rows for name, value in row.items() if name not in FIELDS and _is_nested(value)}
    if aside:
        listed = ", ".join(map(repr, aside))
        warn(f"{path}: {listed} hold lists or objects, which cannot be labels, and are left aside.")
    return prompts


def prompt_lines(prompts: Iterable[Prompt]) -> str:
    """Prompts as the text of such a file; ``read_prompts`` gives them back."""
    rows = [{field: getattr(prompt, field) for field in FIELDS} for prompt in prompts]
    # NaN stands for no value, and JSON has no such number
    rows = [{**row, "labels": {k: v for k, v in row["labels"].items() if v == v}} for row in rows]
    set_fields = [{field: value for field, value in row.items() if value is not None and value != {}} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False, default=_in_json) + "\n" for row in set_fields)


def _in_json(value: Any) -> Any:
    """Labels in any mapping, with numbers of any library."""
    return dict(value) if isinstance(value, Mapping) else value.item()


def _prompt(row: Row, where: str) -> Prompt:
    labels = row.get("labels") or {}
    if not isinstance(labels, Mapping):
        raise PromptError(f'{where}: labels must be an object such as {{"level": 3}}, not {labels!r}.')
    extra = {key: row[key] for key in row if key not in FIELDS and not (_is_nested(row[key]) or _is_none(row[key]))}
    both = sorted(set(extra) & set(labels))
    if both:
        raise PromptError(f"{where}: {both[0]!r} stands both inside and outside labels; keep one.")
    name = row.get("id")
    try:
        _require_numbers(labels)
        prompt = Prompt(
            text=row.get("text"),
            ids=row.get("ids"),
            answer=row.get("answer"),
            answer_tokens=row.get("answer_tokens"),
            id=None if name is None else str(name),
            labels={**labels, **extra},
        )
        require_words(prompt)
    except PromptError as error:
        hint = "".join(f" Did you mean {meant!r} by {name!r}?" for name, meant in _misspelt(row).items())
        if not hint and not {"text", "ids"} & row.keys():
            hint = _renaming(row) or f" Fields of this line: {', '.join(map(repr, row)) or 'none'}."
        raise PromptError(f"{where}: {error}{hint}") from error
    return prompt


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def _is_none(value: Any) -> bool:
    """Return whether a field has no value here: null, or the NaN that Python writes for a missing number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _require_numbers(labels: Mapping[str, Any]) -> None:
    """Refuse NaN, which JSON does not have and Python's reader takes."""
    for name, value in labels.items():
        if isinstance(value, float) and math.isnan(value):
            raise PromptError(f"the label {name!r} is NaN, which is no number; leave the label out.")


def _renaming(row: Row) -> str:
    """Say which fields of a row are called otherwise elsewhere; empty where none is."""
    renamed = []
    for field, other_names in _OTHER_NAMES.items():
        other = next((name for name in row if str(name).lower() in other_names), None)
        if other is not None and field not in row:
            renamed.append(f"{other!r} to {field!r}")
    return f" Rename {' and '.join(renamed)}." if renamed else ""


def _misspelt(row: Row) -> dict[str, str]:
    """Return names that are most likely misspelt fields, with the field that is meant."""
    intended = {}
    for name in row:
        close = difflib.get_close_matches(str(name).lower(), FIELDS, n=1, cutoff=_NEAR)
        if name not in FIELDS and close and close[0] not in row:
            intended[name] = close[0]
    return intended

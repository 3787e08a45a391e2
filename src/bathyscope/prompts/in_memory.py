"""Prompts that are given in memory: texts, lists, tables, what a tokenizer returns, and what names further sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from bathyscope.errors import PromptError, describe_value, warn
from bathyscope.prompts.padding import encoded_prompts, is_encoding
from bathyscope.prompts.parsed_source import SourceSpec
from bathyscope.prompts.prompt import Prompt, PromptSet, is_token_ids
from bathyscope.prompts.prompt_rows import prompts_of_rows
from bathyscope.prompts.spec import parse, source_in
from bathyscope.prompts.tables import is_table, plain_row, rows_of

Named = PathLike[str] | PromptSet | SourceSpec
Encoding = Mapping[str, Any]
"""What a tokenizer returns: ``input_ids``, and usually ``attention_mask``."""
Item = str | Prompt | Sequence[int] | Named | Mapping[str, Any]
T = TypeVar("T")
Source = str | Prompt | Named | Encoding | Sequence[Item]

_LIST = "the list"
GIVEN = "given"
"""The ``dataset`` of prompts that were given in a list."""


def kept_source(source: Source | None) -> Source | None:
    """Return a source that can be read twice and written into a manifest: paths as texts, other iterables as lists."""
    if isinstance(source, PathLike):
        return fspath(source)
    if is_encoding(source):
        return _encoded_ids(source)
    if is_table(source):
        return list(_of_table(source).prompts)
    _refuse_open_file(source)
    # a dict is no source, and refused where it is read
    is_plain = source is None or isinstance(source, str | PromptSet | SourceSpec | Prompt | Mapping)
    if is_plain or not isinstance(source, Iterable):
        return source
    items = (_kept_item(item) for item in source)
    return [plain for item in items for plain in (_encoded_ids(item) if is_encoding(item) else [item])]


def _kept_item(item: Any) -> Any:
    if _is_row(item):
        return prompts_of_rows([plain_row(item)], _LIST)[0]
    return item.tolist() if hasattr(item, "tolist") else item


def _encoded_ids(encoding: Any) -> list[list[int]]:
    return [list(prompt.ids or ()) for prompt in encoded_prompts(encoding)]


def listed_once(source: T | Iterator[Item]) -> T | list[Item]:
    """Return what can be gone through once as a list, and everything else unchanged.

    Raises:
        PromptError: an open file, whose lines would be taken for prompts as they stand.
    """
    _refuse_open_file(source)
    return list(source) if isinstance(source, Iterator) else source


def _refuse_open_file(source: object) -> None:
    if not hasattr(source, "readline"):
        return
    name = getattr(source, "name", None)
    path = f", such as {name!r}" if isinstance(name, str) and Path(name).exists() else ""
    raise PromptError(
        f"Prompts are given as an open file, whose lines would be measured as they stand. Give its path{path}, or a "
        "list of its texts."
    )


def written_source(source: str | PathLike[str]) -> str:
    """A source as it is typed: a path to a folder ends in a slash."""
    text = fspath(source)
    return f"{text}/" if isinstance(source, PathLike) and not text.endswith("/") and Path(text).is_dir() else text


def sources(source: Source | Iterator[Item]) -> list[PromptSet | SourceSpec]:
    """What is given, in order: runs of prompts as sets, and between them what has to be read.

    The list is a source of the same prompts, for whoever looks at what can be gone through once.
    """
    if isinstance(source, (PromptSet, SourceSpec)):
        return [source]
    if isinstance(source, (str, PathLike)):
        return [parse(written_source(source))]
    if isinstance(source, Prompt):
        return [PromptSet((source,), GIVEN)]
    if is_encoding(source):
        return [PromptSet(encoded_prompts(source), GIVEN)]  # type: ignore[arg-type]
    if is_table(source):
        return [_of_table(source)]
    # An iterator is consumed once, here; everything after reads the list.
    items = _plain(listed_once(source))
    if not isinstance(items, (list, tuple)):
        if splits := _splits_of(source):
            raise PromptError(
                f"A {type(source).__name__} of the splits {', '.join(map(repr, splits))} is given; give one of them, "
                f"such as data[{splits[0]!r}]."
            )
        raise PromptError(
            f"Prompts must be a data set's name, a file, a table, what a tokenizer returns, or a list of texts, Prompt "
            f"objects, dicts or token-id lists; {type(source).__name__} given."
        )
    if not items:
        if isinstance(source, Iterator):
            raise PromptError(
                "The iterator of prompts gives none; it can be gone through once, and may have been already. Give a "
                "list, such as list(prompts), which can be read again."
            )
        raise PromptError("The list of prompts is empty; give at least one prompt.")
    if _are_turns(items):
        raise PromptError(
            f"A list of {len(items)} turns of a chat ('role' and 'content') is one prompt, not a list of prompts; give "
            "[Prompt(messages=[…])] with chat=True."
        )
    if is_token_ids(items):
        raise PromptError("A flat list of numbers is one prompt, not a list of prompts; write [[…]].")
    # Neighbouring texts, ids and Prompt objects are one set, so that a list of texts has one name in results.
    resolved: list[PromptSet | SourceSpec] = []
    for is_named, run in groupby(enumerate(items), key=lambda numbered: _is_named(numbered[1])):
        if is_named:
            resolved += [part for number, item in run for part in sources(_named(item, number))]
        else:
            resolved.append(PromptSet(tuple(_from_items([*run])), GIVEN))
    return resolved


def _from_items(items: Sequence[tuple[int, Any]]) -> Iterator[Prompt]:
    """Yield the prompts of neighbouring items of a list; neighbouring dicts are rows of one table."""
    for is_row, run in groupby(items, key=lambda numbered: _is_row(numbered[1])):
        if is_row:
            numbers, rows = zip(*run)
            yield from prompts_of_rows([plain_row(row) for row in rows], _LIST, numbers)
        else:
            yield from (prompt for number, item in run for prompt in _from_item(item, number))


def _are_turns(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) and {"role", "content"} <= set(item) for item in items)


def _splits_of(source: object) -> list[str]:
    """Return the names of the splits of a data set's dict; empty for anything else."""
    if not isinstance(source, Mapping) or not all(is_table(table) for table in source.values()):
        return []
    return [str(name) for name in source]


def _is_named(item: Any) -> bool:
    if isinstance(item, Mapping):
        return not is_encoding(item) and not _is_row(item)
    return isinstance(item, (PromptSet, SourceSpec, PathLike)) or is_table(item)


def _is_row(item: Any) -> bool:
    """Whether an item of a list is a prompt by its fields, or a chat."""
    return isinstance(item, Mapping) and not is_encoding(item) and set(item) != {"source"}


def _of_table(table: Any) -> PromptSet:
    rows = rows_of(table)
    if not rows:
        raise PromptError("The table of prompts is empty; give at least one row.")
    return PromptSet(prompts_of_rows(rows, "the table"), GIVEN)


def _named(item: Any, number: int) -> str | Named:
    if not isinstance(item, Mapping):
        return item
    if not isinstance(item["source"], str):
        raise PromptError(
            f"Prompt {number} of the list is {describe_value(item)}; a further source is written "
            '{"source": "gsm8k:10"}, and a prompt with an answer {"text": "…", "answer": "…"}.'
        )
    return str(item["source"])


def _from_item(item: Any, number: int) -> tuple[Prompt, ...]:
    if isinstance(item, Prompt):
        return (item,)
    if isinstance(item, str):
        _warn_of_a_source(item)
        return (Prompt(text=item),)
    if is_encoding(item):
        try:
            return encoded_prompts(item)
        except PromptError as error:
            raise PromptError(f"Prompt {number} of the list: {error}") from error
    ids = _plain(item)
    if is_token_ids(ids):
        return (Prompt(ids=ids),)
    raise PromptError(
        f"Prompt {number} of the list is {describe_value(item)}; allowed: a text, a Prompt, a dict of its "
        "fields, a list of token ids (whole numbers), or what a tokenizer returns."
    )


def _warn_of_a_source(text: str) -> None:
    """Says so where a text in a list names a source: most likely its prompts were meant."""
    if source_in(text) is not None:
        warn(
            f"The text {text!r} in the list of prompts is measured as it stands. For the prompts it names give it "
            f'alone, or as {{"source": {text!r}}} in the list.',
        )


def _plain(value: Any) -> Any:
    """Arrays and tensors of token ids as lists of Python numbers, columns of data sets as lists; all else as it is."""
    if hasattr(value, "tolist"):
        return value.tolist()
    # A column of a data set is a sequence of its own kind, whose items are read from the disk one by one.
    is_column = isinstance(value, Sequence) and not isinstance(value, (str, bytes, list, tuple, PromptSet))
    return list(value) if is_column else value

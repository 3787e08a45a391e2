"""Whatever the user gives as prompts, resolved to a ``PromptSet``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bathyscope.errors import OptionError, PromptError, describe_value, warn
from bathyscope.prompts.columns import by_columns
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.datasets import data_set, names
from bathyscope.prompts.files import check_exists, read_rows, require_folder
from bathyscope.prompts.generators import GENERATORS
from bathyscope.prompts.hub import column_prompts
from bathyscope.prompts.levels import as_range
from bathyscope.prompts.padding import NO_EDGES, EdgeTokens, encoded_prompts, is_encoding, require_unpadded
from bathyscope.prompts.prompt import Prompt, PromptSet, is_token_ids, require_words
from bathyscope.prompts.prompt_rows import read_prompts, recognised_prompts
from bathyscope.prompts.spec import HUB, SourceSpec, missing_columns, parse
from bathyscope.prompts.tokenize import prompt_names

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Named = PathLike[str] | PromptSet | SourceSpec
Encoding = Mapping[str, Any]
"""What a tokenizer returns: ``input_ids``, and usually ``attention_mask``."""
Item = str | Prompt | Sequence[int] | Named | Mapping[str, str] | Encoding
T = TypeVar("T")
Source = str | Prompt | Named | Encoding | Sequence[Item]

GIVEN = "given"
"""The ``dataset`` of prompts that were given in a list."""


def resolve(
    source: Source,
    *,
    seed: int = 0,
    tokenizer: PreTrainedTokenizerBase | None = None,
    window: int | None = None,
    add_special_tokens: bool = True,
    edges: EdgeTokens = NO_EDGES,
) -> PromptSet:
    """Prompts from a data set's name, a file or a list.

    Args:
        source: a text in the grammar of ``bathyscope.prompts.spec`` (``gsm8k:10``, ``problems:20``,
            ``stories.txt:100?window=256``, ``mine.jsonl``), a path, a ``PromptSet``, or a list of texts,
            ``Prompt`` objects and token-id lists in any mixture. A text in a list is a prompt itself; further
            sources stand there as ``{"source": "gsm8k:10"}``, a path or a ``PromptSet``, and make a union. What a
            tokenizer returns is taken by its ``attention_mask``, as a whole or in a list.
        seed: of generated problems.
        tokenizer: needed for corpora, whose windows are counted in its tokens, and for limits in tokens.
        window: tokens per window of a corpus where the source does not say (the model's context).
        add_special_tokens: begin every window with the tokenizer's BOS, where it has one.
        edges: what the model's texts begin and end with, as far as it is known; bare token ids are looked through for
            padding.

    Raises:
        PromptError: no such data set or file, too few prompts, something in the list that is no prompt, or padded ids.
    """
    sets = []
    for part in sources(source):
        # token ids of a corpus are windows of its text
        may_be_padded = not isinstance(part, SourceSpec) or part.kind == "prompt file"
        if isinstance(part, SourceSpec):
            prompts = _from_spec(part, seed, tokenizer, window, add_special_tokens)
            part = PromptSet(prompts, part.label, is_data_set=part.kind in ("data set", "generated", "hub data set"))
        if may_be_padded:
            require_unpadded(part.prompts, edges)
        sets.append(part)
    return PromptSet.union(sets)


def needs_tokenizer(source: Source) -> bool:
    """Whether anything but token ids is given; for these alone no tokenizer has to be loaded."""
    return any(isinstance(part, SourceSpec) or any(p.ids is None for p in part.prompts) for part in sources(source))


def kept_source(source: Source | None) -> Source | None:
    """Return a source that can be read twice and written into a manifest: paths as texts, other iterables as lists."""
    if isinstance(source, PathLike):
        return fspath(source)
    if is_encoding(source):
        return _encoded_ids(source)
    _refuse_open_file(source)
    # a dict is no source, and refused where it is read
    is_plain = source is None or isinstance(source, str | PromptSet | SourceSpec | Prompt | Mapping)
    if is_plain or not isinstance(source, Iterable):
        return source
    items = (item.tolist() if hasattr(item, "tolist") else item for item in source)
    return [plain for item in items for plain in (_encoded_ids(item) if is_encoding(item) else [item])]


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


def label_of(source: Source) -> str:
    """The ``dataset`` that ``source`` will have, without reading anything; a PromptError where it is no source."""
    return " + ".join(part.label if isinstance(part, SourceSpec) else part.dataset for part in sources(source))


def require_there(source: object) -> None:
    """Refuses texts that are no source, files that are not there and prompt files that cannot be read.

    For what takes minutes before it reads prompts, such as loading a model.
    """
    if isinstance(source, (str, PathLike)):
        source = parse(_written(source))
    if isinstance(source, SourceSpec) and source.path is not None and not source.path.startswith(HUB):
        (require_folder if source.is_folder else check_exists)(Path(source.path))
        # a pipe is read once
        if source.kind in ("prompt file", "table") and Path(source.path).is_file():
            with _without_warnings():
                _require_words(PromptSet(_from_spec(source, 0, None, None, True), source.label))
    elif isinstance(source, (Prompt, PromptSet, list, tuple)):
        with _without_warnings():
            parts = sources(source)
        for part in parts:
            if isinstance(part, SourceSpec):
                require_there(part)
            else:
                _require_words(part)


def require_apart(out: Path, source: Source) -> None:
    """Refuse to write over a file that prompts are read from.

    Raises:
        OptionError: ``out`` is such a file, by whatever name, or a document in such a folder.
    """
    if not out.exists():
        return
    for part in sources(source):
        if not isinstance(part, SourceSpec) or part.path is None or not Path(part.path).exists():
            continue
        if out.samefile(part.path) or (part.is_folder and out.resolve().is_relative_to(Path(part.path).resolve())):
            raise OptionError(
                f"out={str(out)!r} is where prompts are read from ({part}), and would be written over. Give another "
                "file (out=…, --out)."
            )


def _require_words(prompts: PromptSet) -> None:
    """Refuse prompts without words, as they are refused when a model reads them."""
    for name, prompt in zip(prompt_names(prompts), prompts.prompts, strict=True):
        try:
            require_words(prompt)
        except PromptError as error:
            raise PromptError(f"Prompt {name!r}: {error}") from error


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hold back warnings, which come when the prompts are taken."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _from_spec(
    spec: SourceSpec,
    seed: int,
    tokenizer: PreTrainedTokenizerBase | None,
    window: int | None,
    add_special_tokens: bool,
) -> tuple[Prompt, ...]:
    options: dict[str, Any] = dict(spec.options)
    if spec.name is not None and spec.name in GENERATORS:
        return GENERATORS[spec.name].prompts(spec.count, options, seed)
    if spec.name is not None:
        entry = data_set(spec.name)
        if entry is None:
            raise PromptError(f"There is no data set {spec.name!r}; there are {', '.join(names())}.")
        if entry.level in options:
            options["levels"] = as_range(options.pop(entry.level))
        return entry.prompts(count=spec.count, path=spec.path, tokenizer=tokenizer, **options)
    assert spec.path is not None
    if spec.kind == "hub data set":
        missing = f"Prompts {str(spec)!r}: {missing_columns(spec, ['text'])}"
        return column_prompts(spec.path.removeprefix(HUB), count=spec.count, missing=missing, **spec.columns)
    if spec.kind == "table" and not spec.options:
        missing = f"Prompts {str(spec)!r}: {missing_columns(spec, ['text'])}"
        return recognised_prompts(read_rows(spec.path), spec.path, missing, count=spec.count)
    if spec.kind in ("prompt file", "table") and spec.options:
        return by_columns(read_rows(spec.path), spec.path, count=spec.count, **spec.columns)
    if spec.kind == "prompt file":
        return read_prompts(spec.path, count=spec.count)
    return corpus_prompts(
        spec.path,
        tokenizer=tokenizer,
        context=window,
        count=spec.count,
        add_special_tokens=add_special_tokens,
        **options,
    )


def _written(source: str | PathLike[str]) -> str:
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
        return [parse(_written(source))]
    if isinstance(source, Prompt):
        return [PromptSet((source,), GIVEN)]
    if is_encoding(source):
        return [PromptSet(encoded_prompts(source), GIVEN)]  # type: ignore[arg-type]
    # An iterator is consumed once, here; everything after reads the list.
    items = _plain(listed_once(source))
    if not isinstance(items, (list, tuple)):
        raise PromptError(
            f"Prompts must be a data set's name, a file, what a tokenizer returns, or a list of texts, Prompt objects "
            f"or token-id lists; {type(source).__name__} given."
        )
    if not items:
        raise PromptError("The list of prompts is empty; give at least one prompt.")
    if is_token_ids(items):
        raise PromptError("A flat list of numbers is one prompt, not a list of prompts; write [[…]].")
    # Neighbouring texts, ids and Prompt objects are one set, so that a list of texts has one name in results.
    resolved: list[PromptSet | SourceSpec] = []
    for named, run in groupby(enumerate(items), key=lambda numbered: _is_named(numbered[1])):
        if named:
            resolved += [part for number, item in run for part in sources(_named(item, number))]
        else:
            prompts = tuple(prompt for number, item in run for prompt in _from_item(item, number))
            resolved.append(PromptSet(prompts, GIVEN))
    return resolved


def _is_named(item: Any) -> bool:
    return isinstance(item, (PromptSet, SourceSpec, PathLike, Mapping)) and not is_encoding(item)


def _named(item: Any, number: int) -> str | Named:
    if not isinstance(item, Mapping):
        return item
    if set(item) != {"source"} or not isinstance(item["source"], str):
        raise PromptError(
            f"Prompt {number} of the list is {describe_value(item)}; a further source is written "
            '{"source": "gsm8k:10"}, and a prompt with an answer is a Prompt object, or a line of a .jsonl file.'
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
        f"Prompt {number} of the list is {describe_value(item)}; allowed: a text, a Prompt, a list of token ids "
        "(whole numbers), or what a tokenizer returns."
    )


def _warn_of_a_source(text: str) -> None:
    """Says so where a text in a list names a source: most likely its prompts were meant."""
    try:
        parse(text)
    except PromptError:
        return
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

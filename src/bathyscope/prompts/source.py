"""Whatever the user gives as prompts, resolved to a ``PromptSet``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bathyscope.errors import OptionError, PromptError
from bathyscope.prompts.columns import by_columns
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.datasets import data_set, names
from bathyscope.prompts.files import check_exists, read_rows, require_folder
from bathyscope.prompts.generators import GENERATORS
from bathyscope.prompts.harness.documents import harness_prompts, require_task
from bathyscope.prompts.harness.task_code import YAML_FILES
from bathyscope.prompts.hub import column_prompts
from bathyscope.prompts.in_memory import Source, sources
from bathyscope.prompts.levels import as_range
from bathyscope.prompts.padding import NO_EDGES, EdgeTokens, require_unpadded
from bathyscope.prompts.parsed_source import HUB, SourceSpec
from bathyscope.prompts.prompt import Prompt, PromptSet, require_words
from bathyscope.prompts.prompt_rows import read_prompts, recognised_prompts
from bathyscope.prompts.source_checks import missing_columns
from bathyscope.prompts.spec import naming
from bathyscope.prompts.tables import is_table
from bathyscope.prompts.tokenize import prompt_names

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_DATA_SETS: Final = ("data set", "generated", "hub data set", "harness task")


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
            ``stories.txt:100?window=256``, ``mine.jsonl``), a path, a ``PromptSet``, a table with the fields of prompt
            files, or a list of texts, ``Prompt`` objects, dicts of such fields and token-id lists in any mixture. A
            text in a list is a prompt itself; further sources are there as ``{"source": "gsm8k:10"}``, a path or a
            ``PromptSet``, and make a union. What a tokenizer returns is taken by its ``attention_mask``, as a whole or
            in a list.
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
            part = PromptSet(prompts, part.label, is_data_set=part.kind in _DATA_SETS)
        if may_be_padded:
            require_unpadded(part.prompts, edges)
        sets.append(part)
    return PromptSet.union(sets)


def needs_tokenizer(source: Source) -> bool:
    """Whether anything but token ids is given; for these alone no tokenizer has to be loaded."""
    return any(isinstance(part, SourceSpec) or any(p.ids is None for p in part.prompts) for part in sources(source))


def label_of(source: Source) -> str:
    """The ``dataset`` that ``source`` will have, without reading anything; a PromptError where it is no source."""
    return " + ".join(part.label if isinstance(part, SourceSpec) else part.dataset for part in sources(source))


def require_there(source: object) -> None:
    """Refuses texts that are no source, files that are not there and prompt files that cannot be read.

    For what takes minutes before it reads prompts, such as loading a model.
    """
    # anything else is refused, or gone through once, where it is read
    if not isinstance(source, (str, PathLike, SourceSpec, Prompt, PromptSet, list, tuple)) and not is_table(source):
        return
    with _without_warnings():
        for part in sources(source):  # type: ignore[arg-type]
            if not isinstance(part, SourceSpec):
                _require_words(part)
            elif _is_on_this_disk(part):
                _require_words(PromptSet(_from_spec(part, 0, None, None, True), part.label))


def _is_on_this_disk(source: SourceSpec) -> bool:
    """Return whether prompts can be read again and again; what does not exist at all is refused."""
    if source.harness_task is not None:
        with naming(str(source)):
            require_task(source.harness_task, source.path)
        # documents of the hub are fetched once
        return source.path is not None or source.harness_task.endswith(YAML_FILES)
    if source.path is None or source.path.startswith(HUB):
        return False
    (require_folder if source.is_folder else check_exists)(Path(source.path))
    # a pipe is read once
    return source.kind in ("prompt file", "table") and Path(source.path).is_file()


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
    if spec.harness_task is not None:
        with naming(str(spec)):
            return harness_prompts(spec.harness_task, count=spec.count, path=spec.path)
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

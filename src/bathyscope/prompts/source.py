"""Whatever the user gives as prompts, resolved to a ``PromptSet``."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from bathyscope.errors import PromptError
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.datasets import registry
from bathyscope.prompts.problems import generate, to_prompt
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.promptfile import is_token_ids, read_prompts
from bathyscope.prompts.spec import SourceSpec, parse

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Source = str | PathLike[str] | PromptSet | SourceSpec | Sequence[str | Prompt | Sequence[int]]

GIVEN = "given"
"""The ``dataset`` of prompts that were given in a list."""


def resolve(
    source: Source,
    *,
    seed: int = 0,
    tokenizer: PreTrainedTokenizerBase | None = None,
    window: int | None = None,
) -> PromptSet:
    """Prompts from a data set's name, a file or a list.

    Args:
        source: a text in the grammar of ``bathyscope.prompts.spec`` (``gsm8k:10``, ``problems:20``,
            ``stories.txt:100?window=256``, ``mine.jsonl``), a path, a ``PromptSet``, or a list of texts,
            ``Prompt`` objects and token-id lists in any mixture. A string is never taken for a prompt itself.
        seed: of generated problems.
        tokenizer: needed for corpora only, whose windows are counted in its tokens.
        window: tokens per window of a corpus where the source does not say (the model's context).

    Raises:
        PromptError: no such data set or file, too few prompts, or something in the list that is no prompt.
    """
    if isinstance(source, PromptSet):
        return source
    if isinstance(source, (str, PathLike)):
        source = parse(fspath(source))
    if isinstance(source, SourceSpec):
        prompts = _from_spec(source, seed, tokenizer, window)
        return PromptSet(prompts, source.label, is_data_set=source.kind == "data set")
    return PromptSet(_from_list(source), GIVEN)


def _from_spec(
    spec: SourceSpec, seed: int, tokenizer: PreTrainedTokenizerBase | None, window: int | None
) -> tuple[Prompt, ...]:
    if spec.name is not None and spec.kind == "data set":
        return registry()[spec.name].prompts(count=spec.count, path=spec.path, split=spec.text("split"))
    if spec.kind == "generated":
        assert spec.count is not None
        options = {key: int(value) for key, value in spec.options}
        problems = generate("word" if spec.name == "problems" else "sum", spec.count, seed, **options)
        return tuple(to_prompt(problem) for problem in problems)
    assert spec.path is not None
    if spec.kind == "prompt file":
        return read_prompts(spec.path, count=spec.count)
    return corpus_prompts(
        spec.path,
        tokenizer=tokenizer,
        window=spec.number("window") or window,
        chars=spec.number("chars"),
        limit=spec.number("limit"),
        count=spec.count,
    )


def _from_list(source: Any) -> tuple[Prompt, ...]:
    if isinstance(source, Prompt):
        return (source,)
    items = _plain(source)
    if not isinstance(items, (list, tuple)):
        raise PromptError(
            f"Prompts must be a data set's name, a file, or a list of texts, Prompt objects or token-id "
            f"lists; {type(source).__name__} given."
        )
    if not items:
        raise PromptError("The list of prompts is empty; give at least one prompt.")
    if is_token_ids(list(items)):
        raise PromptError("A flat list of numbers is one prompt, not a list of prompts; write [[…]].")
    return tuple(_from_item(item, number) for number, item in enumerate(items))


def _from_item(item: Any, number: int) -> Prompt:
    if isinstance(item, Prompt):
        return item
    if isinstance(item, str):
        return Prompt(text=item)
    ids = _plain(item)
    if isinstance(ids, (list, tuple)) and is_token_ids(list(ids)):
        return Prompt(ids=ids)
    raise PromptError(
        f"Prompt {number} of the list is {item!r:.60}; allowed: a text, a Prompt, or a list of token ids "
        "(whole numbers)."
    )


def _plain(value: Any) -> Any:
    """Arrays and tensors of token ids as lists of Python numbers; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value

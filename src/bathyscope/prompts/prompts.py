"""All prompts of a measurement as one model reads them: what every part takes, and what a run gives back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from bathyscope.core.tables import html_table
from bathyscope.core.text import legible
from bathyscope.errors import PromptError, describe_value, warn
from bathyscope.prompts.parts import clusters, copies_in, drawn_together, parts
from bathyscope.prompts.prompt import Label, Prompt, PromptSet, TokenizedPrompt
from bathyscope.prompts.tokenizer import pieces, special_places, tokenizer_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COORDINATES = ("prompt_id", "n_tokens", "dataset")
"""Coordinates that every result has for its prompts, in addition to their labels."""


class PromptRecord(NamedTuple):
    """What a run stores of prompts in addition to their ids: hashes, and by prompt the text of every token.

    ``pieces`` is None where no text was stored, ``specials`` where the run does not say which tokens are special.
    """

    hash: str
    tokenizer_hash: str | None
    pieces: tuple[tuple[str, ...], ...] | None
    specials: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, repr=False)
class Prompts(Sequence[TokenizedPrompt]):
    """Token ids with names, answers and labels, in the order of the ``prompt`` dimension of results.

    Args:
        items: one a prompt.
        dataset: where they came from, such as ``gsm8k:10``.
        tokenizer: what made the ids of text; None where all prompts were given as ids, or come from a run.
        record: what a run stores of them; None for prompts that come from no run.
        reading: the options by which their texts were read; empty = as they stand, with special tokens.

    Example:
        >>> run.prompts.lengths == [len(prompt) for prompt in run.prompts]
        True
        >>> len(run.prompts.some([0, 2]))
        2
    """

    items: tuple[TokenizedPrompt, ...]
    dataset: str
    tokenizer: PreTrainedTokenizerBase | None = field(default=None, compare=False)
    record: PromptRecord | None = field(default=None, compare=False)
    reading: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> TokenizedPrompt: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TokenizedPrompt]: ...

    def __getitem__(self, index: int | slice) -> TokenizedPrompt | Sequence[TokenizedPrompt]:
        return self.items[index]

    def __repr__(self) -> str:
        return legible(f"<Prompts of {self.dataset}: {len(self)}, {sum(self.lengths)} tokens>")

    def _repr_html_(self) -> str:
        """A table of the first prompts, with their words where they are known."""
        has_text = self.record is None or self.record.pieces is not None
        rows = [
            [
                prompt.id,
                len(prompt),
                *(prompt.labels.get(name, "") for name in self.labels),
                "".join(self.pieces(n)) if has_text else "–",
            ]
            for n, prompt in enumerate(self.items)
        ]
        return html_table(["prompt", "tokens", *self.labels, "text"], rows, most=20, letters=80)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over ids, names, answers and labels: two runs with the same one measured the same tokens."""
        return prompts_hash(self.items) if self.record is None else self.record.hash

    @property
    def names(self) -> list[str]:
        """The prompts' ids, the ``prompt_id`` of results."""
        return [prompt.id for prompt in self.items]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each prompt."""
        return [len(prompt) for prompt in self.items]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of all labels that any prompt has."""
        return tuple(dict.fromkeys(name for prompt in self.items for name in prompt.labels))

    def label(self, name: str) -> list[Label | None]:
        """A label's value for each prompt; None for a prompt without it."""
        return [prompt.labels.get(name) for prompt in self.items]

    def clusters(self, label: str | None) -> NDArray[np.intp] | None:
        """The number of each prompt's cluster, [prompts]; prompts of one number are resampled as one.

        Copies are of one cluster, and with a label so are prompts of one value. None = each prompt stands for itself.

        Raises:
            OptionError: no such label; a prompt without it; fewer than three clusters; a cluster for every prompt.
        """
        copies = copies_in(self)
        return copies if label is None else drawn_together(parts(clusters(self, label))[1], copies)

    @cached_property
    def copy_of(self) -> dict[str, int]:
        """Id of each prompt → number of the first that has its tokens; empty where no two are alike."""
        copies = copies_in(self)
        return {} if copies is None else {prompt.id: int(number) for prompt, number in zip(self, copies)}

    @cached_property
    def tokenizer_hash(self) -> str | None:
        """Of the tokenizer that made the ids of text; None where all prompts were given as ids."""
        if self.record is not None:
            return self.record.tokenizer_hash
        return None if self.tokenizer is None else tokenizer_hash(self.tokenizer)

    def _require(self, index: object) -> None:
        """Refuse what is no number of a prompt here; -1 is the last."""
        if not isinstance(index, SupportsIndex) or not -len(self.items) <= index.__index__() < len(self.items):
            raise PromptError(
                f"There is no prompt {describe_value(index)} here; give a number from 0 to {len(self.items) - 1}."
            )

    def pieces(self, index: int) -> tuple[str, ...]:
        """The text of every token of a prompt; where prompts were given as ids, the ids as text.

        Raises:
            PromptError: there is no such prompt, or they come from a run that keeps no text.
        """
        self._require(index)
        if self.record is None:
            return tuple(pieces(self.items[index].ids, self.tokenizer))
        if self.record.pieces is None:
            raise PromptError(
                f"The run keeps no text of {self.dataset}; survey again without --no-keep-text (keep_text=False), "
                "into another folder, or decode the token ids with the model's tokenizer."
            )
        return self.record.pieces[index]

    def specials(self, index: int) -> tuple[int, ...]:
        """The places of a prompt's special tokens, such as BOS and marks of turns; none where they are unknown."""
        self._require(index)
        if self.record is None:
            return special_places(self.items[index].ids, self.tokenizer)
        return () if self.record.specials is None else self.record.specials[index]

    def answer(self, index: int) -> str | None:
        """The text of a prompt's answer tokens; None for a prompt without an answer."""
        self._require(index)
        tokens = self.items[index].answer_tokens
        texts = self.pieces(index)
        return None if tokens is None else "".join(texts[-tokens:])

    def some(self, chosen: Sequence[int]) -> Prompts:
        """Some of the prompts, by their numbers."""
        for number in chosen:
            self._require(number)
        saved, items = self.record, tuple(self.items[number] for number in chosen)
        if saved is not None:
            pieces = None if saved.pieces is None else tuple(saved.pieces[number] for number in chosen)
            specials = None if saved.specials is None else tuple(saved.specials[number] for number in chosen)
            saved = PromptRecord(prompts_hash(items), saved.tokenizer_hash, pieces, specials)
        return replace(self, items=items, record=saved)

    def coords(self, chosen: Sequence[int] | None = None) -> dict[str, tuple[str, Any]]:
        """Coordinates on ``prompt`` for some of the prompts (None = all): id, tokens, data set, and every label.

        Types are those that all prompts need: a label that some lack is NaN there, or an empty text.
        """
        items = self.items if chosen is None else [self.items[number] for number in chosen]
        coords: dict[str, Any] = {
            "prompt_id": np.array([prompt.id for prompt in items], dtype=object),
            "n_tokens": np.array([len(prompt) for prompt in items], dtype=np.int64),
            "dataset": np.array([prompt.dataset for prompt in items], dtype=object),
        }
        for name in self.labels:
            # Types by all prompts, not by this shard's: shards of other types could not be joined.
            everyone, values = self.label(name), [prompt.labels.get(name) for prompt in items]
            if all(value is None or isinstance(value, int | float) for value in everyone):
                # a prompt without the label has NaN, which only a float can be
                whole = all(isinstance(value, int) for value in everyone)
                coords[name] = np.array(values, dtype=np.int64 if whole else np.float64)
            else:
                coords[name] = np.array(["" if value is None else str(value) for value in values], dtype=object)
        return {name: ("prompt", values) for name, values in coords.items()}

    def as_given(self) -> PromptSet:
        """The same token ids as a source of prompts, for another measurement of a model of the same vocabulary."""
        sets = [
            PromptSet(tuple(map(_as_given, group)), dataset, is_data_set=True)
            for dataset, group in groupby(self.items, key=lambda prompt: prompt.dataset)
        ]
        return PromptSet.union(sets)


def _as_given(prompt: TokenizedPrompt) -> Prompt:
    return Prompt(ids=prompt.ids, answer_tokens=prompt.answer_tokens, id=prompt.id, labels=prompt.labels)


def prompts_hash(prompts: Iterable[TokenizedPrompt]) -> str:
    """SHA-256 (hexadecimal) over ids, names, answers and labels, in order.

    One JSON line a prompt, keys sorted, so that it is the same on every machine and in every process.
    """
    digest = hashlib.sha256()
    for prompt in prompts:
        line = {
            "answer_tokens": prompt.answer_tokens,
            "id": prompt.id,
            "ids": list(prompt.ids),
            "labels": dict(prompt.labels),
        }
        digest.update(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def count_repeats(prompts: Sequence[TokenizedPrompt]) -> int:
    """Return how many prompts have the tokens of an earlier one."""
    copies = copies_in(prompts)
    return 0 if copies is None else len(prompts) - len(set(copies.tolist()))


def copies_in_words(copies: int, prompts: int) -> str:
    """Say of stored results that some prompts are copies of others; a clause, such as of a caveat."""
    if copies == 1:
        return f"1 of {prompts} prompts is a copy of another, which intervals take as one with it"
    return f"{copies} of {prompts} prompts are copies of others, which intervals take as one with them"


def warn_of_repeats(prompts: Sequence[TokenizedPrompt]) -> None:
    """Warn of prompts that have the tokens of others, which add nothing and count in every mean."""
    repeats = count_repeats(prompts)
    if repeats:
        warn(
            f"{repeats} of {len(prompts)} prompts have the tokens of others: each counts in the means, and intervals "
            "take equal ones as one. Give each prompt once."
        )


def words_of(prompts: Prompts, number: int) -> Iterator[str]:
    """Yield the pieces of a prompt but for its special tokens."""
    specials = set(prompts.specials(number))
    return (piece for place, piece in enumerate(prompts.pieces(number)) if place not in specials)

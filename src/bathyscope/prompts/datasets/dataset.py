"""What a data set declares, and how its rows are read from the hub or from a local copy."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from bathyscope.errors import ModelError, PromptError, warn
from bathyscope.prompts.files import Row, read_rows
from bathyscope.prompts.hub import hub_rows
from bathyscope.prompts.levels import in_turn, shares
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class TokenLimit:
    """At most ``tokens`` tokens of the tokenizer called ``tokenizer`` on the hub."""

    tokens: int
    tokenizer: str

    def fits(
        self, data_set: str, max_tokens: int | None, model_tokenizer: PreTrainedTokenizerBase | None
    ) -> Callable[[str], bool]:
        """Return a check that a text is short enough: at most ``max_tokens`` tokens, or (None) the papers' limit.

        The papers' tokenizer counts by default, and the surveyed model's counts ``max_tokens``. The model's tokenizer
        also replaces the papers', with a warning, where that is neither in the cache nor on the hub.

        Raises:
            PromptError: the model's tokenizer is needed, and the model has none.
        """
        counting = None
        if max_tokens is None:
            with suppress(ModelError):
                counting = load_tokenizer(self.tokenizer)
        if counting is None and model_tokenizer is None:
            raise PromptError(
                f"{data_set}: its prompts are limited in tokens, and there is neither {self.tokenizer}, which the "
                "papers counted with, nor a tokenizer of the model; give a model with a tokenizer."
            )
        if counting is None and max_tokens is None:
            warn(
                f"{data_set}: prompts of at most {self.tokens} tokens are taken, and the papers counted with "
                f"{self.tokenizer}, which cannot be loaded here. Counted with the model's own tokenizer instead, so "
                f"the choice of prompts may differ; max_tokens={self.tokens} asks for that without this warning.",
            )
        counted: Any = model_tokenizer if counting is None else counting
        return lambda text: len(counted(text, verbose=False)["input_ids"]) <= (max_tokens or self.tokens)


SHUFFLE_SEED = 42
"""Of ``random.Random``, which puts the rows of each level in the papers' order, whatever the survey's seed."""


@dataclass(frozen=True)
class DataSet:
    """A data set in the format the papers measured it in.

    Args:
        name: what the user types.
        hub: its id on the hub; None = only local files.
        config: its configuration on the hub; None = the only one.
        split: the split the papers used; another may be asked for by ``?split=``.
        columns: the columns that ``to_prompt`` reads.
        to_prompt: makes the prompt of one row; raises ``PromptError`` where the row does not fit.
        source: paper key and section of the format.
        level: the label that holds a prompt's difficulty; None = the rows have no levels and keep their order.
        limit: longer prompts are left out; None = none are.
        origin: where a data set that is not on the hub is found.
    """

    name: str
    hub: str | None
    config: str | None
    split: str | None
    columns: tuple[str, ...]
    to_prompt: Callable[[Row], Prompt]
    source: str
    level: str | None = None
    limit: TokenLimit | None = None
    origin: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """What may be after ``?``."""
        levels = () if self.level is None else (self.level, "per_level")
        split = () if self.hub is None else ("split",)
        return (*levels, *split, *(() if self.limit is None else ("max_tokens",)))

    def prompts(
        self,
        *,
        count: int | None = None,
        path: str | None = None,
        split: str | None = None,
        levels: range | None = None,
        per_level: int | None = None,
        max_tokens: int | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> tuple[Prompt, ...]:
        """The first ``count`` rows (None = all) as prompts, in the papers' order.

        Where rows have levels, those of each level are shuffled by ``random.Random(42)``, as the papers did, and
        levels take turns; which prompts a level gives does not depend on the other levels.

        Args:
            path: a local file with the same columns (JSONL, CSV, parquet); None = the hub.
            split: of the hub's copy; None = the papers' split.
            levels: only these; None = all that there are.
            per_level: how many of each level, instead of ``count``.
            max_tokens: another limit than the data set's, in tokens of ``tokenizer``.
            tokenizer: the surveyed model's; needed for some limits only.

        Raises:
            PromptError: the hub cannot be reached, columns are missing, there are fewer rows than asked for,
                or a row does not fit the format.
        """
        where = path if path is not None else f"{self.hub} ({split or self.split})"
        rows = self._hub_rows(split or self.split) if path is None else read_rows(path)
        row_prompts: Iterable[Prompt] = (self._prompt(row, number, where) for number, row in enumerate(rows, start=1))
        # Lazily: rows behind the last prompt that is asked for are neither made into text nor counted in tokens.
        if self.limit is not None:
            fits = self.limit.fits(self.name, max_tokens, tokenizer)
            row_prompts = (prompt for prompt in row_prompts if fits(prompt.text or ""))
        if self.level is not None:
            return self._by_level(self.level, row_prompts, where, count, levels, per_level)
        chosen = tuple(islice(row_prompts, count))
        short = "" if self.limit is None else f" of at most {max_tokens or self.limit.tokens} tokens"
        if not chosen:
            raise PromptError(f"{self.name}: there are no rows{short} in {where}.")
        if count is not None and len(chosen) < count:
            raise PromptError(
                f"{self.name}: {count} rows asked for, but {where} has {len(chosen)}{short}; ask for at most that."
            )
        return chosen

    def _by_level(
        self,
        label: str,
        prompts: Iterable[Prompt],
        where: str,
        count: int | None,
        levels: range | None,
        per_level: int | None,
    ) -> tuple[Prompt, ...]:
        by_level: dict[Any, list[Prompt]] = {}
        for prompt in prompts:
            by_level.setdefault(prompt.labels[label], []).append(prompt)
        if not by_level:
            raise PromptError(f"{self.name}: there are no rows in {where}.")
        available = ", ".join(f"{level} ({len(by_level[level])} rows)" for level in sorted(by_level))
        chosen_levels = sorted(by_level) if levels is None else levels
        absent = next((level for level in chosen_levels if level not in by_level), None)
        if absent is not None:
            raise PromptError(f"{self.name}: {where} has no rows of {label} {absent}; it has {label} {available}.")
        if levels is not None and count is not None and count < len(chosen_levels):
            raise PromptError(
                f"{self.name}: {count} prompts cannot cover the {len(chosen_levels)} levels that {label}={levels[0]}-"
                f"{levels[-1]} asks for; give at least {len(chosen_levels)}."
            )
        sizes: list[int | None] = (
            [per_level] * len(chosen_levels) if count is None else [*shares(count, len(chosen_levels))]
        )
        groups = []
        for level, size in zip(chosen_levels, sizes, strict=True):
            if size is not None and size > len(by_level[level]):
                raise PromptError(
                    f"{self.name}: {size} prompts of {label} {level} asked for, but {where} has {label} {available}; "
                    "ask for fewer."
                )
            # The papers' order, with one seed whatever the survey's: ten prompts are the first of twenty.
            random.Random(SHUFFLE_SEED).shuffle(by_level[level])
            groups.append(by_level[level][:size])
        return tuple(in_turn(groups))

    def _hub_rows(self, split: str | None) -> Iterable[Row]:
        if self.hub is None:
            raise PromptError(
                f"{self.name} is not on the hub; take {self.origin} and give it as a local file with the columns "
                f"{', '.join(self.columns)}: {self.name}:10@FILE.csv (or .jsonl, .parquet)."
            )
        columns = ", ".join(self.columns)
        local = f"give a local file with the columns {columns}: {self.name}:10@FILE.jsonl (or .csv, .parquet)"
        try:
            return hub_rows(self.hub, self.config, split, local)
        except PromptError as error:
            raise PromptError(f"{self.name}: {error}") from error.__cause__

    def _prompt(self, row: Row, number: int, where: str) -> Prompt:
        missing = [column for column in self.columns if column not in row]
        if missing:
            raise PromptError(
                f"{self.name}: {where if number == 1 else f'row {number} of {where}'} lacks {', '.join(missing)}. "
                f"Columns needed: {', '.join(self.columns)}; found: {', '.join(map(str, row))}."
            )
        try:
            return self.to_prompt(row)
        except PromptError as error:
            raise PromptError(f"{self.name}, row {number} of {where}: {error}") from error


def text_of(row: Row, column: str) -> str:
    """A column that must hold text; a PromptError where it holds something else."""
    value = row[column]
    if not isinstance(value, str):
        raise PromptError(f"column {column!r} must hold text, not {type(value).__name__}.")
    return value


def filled_text_of(row: Row, column: str) -> str:
    """A column that must hold text other than white space."""
    text = text_of(row, column)
    if not text.strip():
        raise PromptError(f"column {column!r} is empty.")
    return text


def list_of(row: Row, column: str) -> list[Any]:
    """A column that must hold a list, or its JSON text, which is how a CSV file can hold one."""
    value = row[column]
    # The same data set as parquet has lists, and as CSV their texts.
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise PromptError(f"column {column!r} must be a list, or its JSON text ({error}).") from error
    if not isinstance(value, list):
        raise PromptError(f"column {column!r} must be a list, not {type(value).__name__}.")
    return value

"""Words in context: rows of two sentences that use one word, in one meaning or in two, and the word's last token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bathyscope.errors import PromptError, describe_value
from bathyscope.prompts.files import read_rows
from bathyscope.prompts.hub import hub_rows
from bathyscope.prompts.prompt import whole_number
from bathyscope.prompts.tokenizer import ask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HUB, CONFIG = "aps/super_glue", "wic"
COLUMNS = ("word", "sentence1", "sentence2", "start1", "end1", "start2", "end2", "label")
Rows = str | Path | Iterable[Mapping[str, Any]] | None
Split = Literal["train", "validation"]


@dataclass(frozen=True)
class Use:
    """A word in a sentence: the token ids and the place of the word's last token."""

    ids: tuple[int, ...]
    token: int


@dataclass(frozen=True)
class WordPair:
    """Two uses of a word, and whether it means the same in both (1) or not (0)."""

    uses: tuple[Use, Use]
    label: int


def read_pairs(
    source: Rows,
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    *,
    count: int | None = None,
    max_tokens: int | None = None,
) -> list[WordPair]:
    """The first ``count`` rows (None = all) of what ``wic_probe`` takes, or of the split on the hub, as token ids.

    No sentence is longer than ``max_tokens``.
    """
    if not tokenizer.is_fast:
        raise PromptError(
            f"{type(tokenizer).__name__} gives no character offsets, so the tokens of a word cannot be found; a "
            "tokenizer with a tokenizer.json is needed."
        )
    where = f"{HUB} {CONFIG} ({split})" if source is None else str(source) if isinstance(source, str | Path) else split
    pairs = []
    for number, row in enumerate(islice(_rows(source, split), count), start=1):
        try:
            pairs.append(_pair(row, tokenizer, max_tokens))
        except PromptError as error:
            raise PromptError(f"WiC row {number} of {where}: {error}") from error
    if not pairs:
        raise PromptError(f"There are no WiC rows in {where}.")
    if count is not None and len(pairs) < count:
        raise PromptError(f"{count} rows asked for, but {where} has {len(pairs)}; ask for at most that.")
    return pairs


def _rows(source: Rows, split: Split) -> Iterable[Mapping[str, Any]]:
    if source is None:
        return hub_rows(HUB, CONFIG, split, f"give local files with the columns {', '.join(COLUMNS)}")
    if not isinstance(source, str | Path | Iterable):
        raise PromptError(f"{split}={describe_value(source)} holds no rows; give a file, or a list of dicts.")
    return read_rows(source) if isinstance(source, str | Path) else source


def _pair(row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, max_tokens: int | None) -> WordPair:
    if not isinstance(row, Mapping):
        raise PromptError(f"it is {describe_value(row)}, and no dict. Columns needed: {', '.join(COLUMNS)}.")
    missing = [column for column in COLUMNS if column not in row]
    if missing:
        raise PromptError(f"it lacks {', '.join(missing)}. Columns needed: {', '.join(COLUMNS)}.")
    label = _number(row, "label")
    if label not in (0, 1):
        raise PromptError(f"its label is {label}; allowed: 0 (two meanings) and 1 (one meaning).")
    first, second = (_use(row, side, tokenizer, max_tokens) for side in ("1", "2"))
    return WordPair((first, second), label)


def _use(row: Mapping[str, Any], side: str, tokenizer: PreTrainedTokenizerBase, max_tokens: int | None) -> Use:
    sentence, start, end = row[f"sentence{side}"], _number(row, f"start{side}"), _number(row, f"end{side}")
    if not isinstance(sentence, str) or not 0 <= start < end <= len(sentence):
        raise PromptError(f"start{side}={start} and end{side}={end} do not lie within sentence{side}={sentence!r:.80}.")
    encoded = ask(tokenizer, sentence, return_offsets_mapping=True, verbose=False)
    ids, spans = encoded["input_ids"], encoded["offset_mapping"]
    # The last token that covers the word has attended to all of it. Special tokens cover (0, 0) and never match.
    covering = [place for place, (first, last) in enumerate(spans) if first < end and last > start]
    if not covering:
        raise PromptError(
            f"no token covers the word {sentence[start:end]!r} of sentence{side}: the tokenizer's offsets miss it."
        )
    if max_tokens is not None and len(ids) > max_tokens:
        raise PromptError(f"sentence{side} has {len(ids)} tokens, more than the {max_tokens} the model can take.")
    return Use(tuple(ids), covering[-1])


def _number(row: Mapping[str, Any], column: str) -> int:
    value = row[column]
    # a CSV file holds texts
    number = int(value) if isinstance(value, str) and value.strip().lstrip("-").isdecimal() else whole_number(value)
    if number is None:
        raise PromptError(f"{column}={value!r} is no whole number.")
    return number

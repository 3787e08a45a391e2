"""Words after a fixed context, as token ids of one length, by the number of tokens the word is split into."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bathyscope.errors import OptionError, PromptError, describe_value
from bathyscope.options import require_no_dict
from bathyscope.prompts.files import open_text
from bathyscope.prompts.tokenizer import ask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_AT_ONCE = 1024


def read_words(words: str | Path | Sequence[str], characters: int | None) -> list[str]:
    """Different words, in the order in which they first appear.

    Args:
        words: a list of words, or a UTF-8 text file, gzipped where its name ends in ``.gz``; of a text the words
            are its runs of letters, with hyphens and apostrophes inside.
        characters: of a text only this many from its beginning; None = all.
    """
    if isinstance(words, str | Path):
        with open_text(words) as file:
            matches = _WORD.findall(file.read() if characters is None else file.read(characters))
        if not matches:
            raise PromptError(f"{words} holds no words; give a text, or a file with a word on every line.")
        return list(dict.fromkeys(matches))
    if not isinstance(words, Iterable):
        raise OptionError(f"words={describe_value(words)} is no list of words; give one, or a text file.")
    require_no_dict(words, "words")
    for word in words:
        if not isinstance(word, str) or not word or len(word.split()) != 1 or word != word.strip():
            raise PromptError(f"{word!r} is no word; give texts without white space.")
    if not words:
        raise PromptError("The list of words is empty; give words.")
    return list(dict.fromkeys(words))


def place_words(
    words: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    pieces: Sequence[int],
    *,
    context: str,
    window: int,
    count: int,
    least: int,
    seed: int,
) -> dict[int, dict[str, tuple[int, ...]]]:
    """Words that the tokenizer splits into ``pieces`` tokens, ``least`` to ``count`` of each number, in random order.

    By their number of tokens: word → token ids, which are the special tokens that the tokenizer puts in front, and the
    last ``window`` tokens of context and word together. A word whose tokens cannot be told from the context's is left
    out.
    """
    before = list(ask(tokenizer, context, add_special_tokens=False, verbose=False)["input_ids"])
    if len(before) < window - 1:
        # a window is longer than the words in it
        fits = len(before) + 1
        shorter = f", or window={fits}" if fits > max(pieces) else ""
        raise OptionError(
            f"context={context!r:.60} has {len(before)} tokens, too few for a window of {window}; give a longer "
            f"one{shorter}."
        )
    start = _in_front(context, before, tokenizer)
    placed_words: dict[int, dict[str, tuple[int, ...]]] = {number: {} for number in pieces}
    numbers: Counter[int] = Counter()
    # Random order: a text's first words are its most frequent ones, which a tokenizer splits least.
    order = np.random.default_rng(seed).permutation(len(words)).tolist()
    for first in range(0, len(order), _AT_ONCE):
        if all(len(placed) >= count for placed in placed_words.values()):
            break
        batch = [words[i] for i in order[first : first + _AT_ONCE]]
        texts = [f"{context} {word}" for word in batch]
        for word, ids in zip(batch, ask(tokenizer, texts, add_special_tokens=False, verbose=False)["input_ids"]):
            number = len(ids) - len(before) if list(ids[: len(before)]) == before else 0
            # 0 counts words whose first token merges with the end of the context.
            numbers[number] += 1
            if len(placed_words.get(number, range(count))) < count:
                placed_words[number][word] = (*start, *ids[-window:])
    _require(placed_words, numbers, least)
    return placed_words


def _in_front(context: str, before: list[int], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The special tokens that the tokenizer puts before a text."""
    whole = list(ask(tokenizer, context, verbose=False)["input_ids"])
    places = range(len(whole) - len(before) + 1)
    return whole[: next((i for i in places if whole[i : i + len(before)] == before), 0)]


def _require(placed_words: Mapping[int, Collection[str]], numbers: Counter[int], least: int) -> None:
    lacking = [number for number, placed in placed_words.items() if len(placed) < least]
    if not lacking:
        return
    whole = sorted(number for number in numbers if number > 0)
    seen = ", ".join(f"{numbers[number]} of {number}" for number in whole)
    unclear = f", {numbers[0]} whose tokens run into the context's" if numbers[0] else ""
    pieces = lacking[0]
    tokens = "1 token" if pieces == 1 else f"{pieces} tokens"
    raise PromptError(
        f"{len(placed_words[pieces])} of the {numbers.total()} words are split into {tokens}, and at least {least} are "
        f"needed. Words by their number of tokens: {seen}{unclear}. Give more words, or another number of pieces."
    )

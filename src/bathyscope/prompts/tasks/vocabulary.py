"""Tokenizers in which every word of a task is one token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bathyscope.errors import OptionError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BOS, EOS, PAD, UNKNOWN = "<|begin|>", "<|end|>", "<|pad|>", "<|unknown|>"
SPECIAL = (PAD, BOS, EOS, UNKNOWN)
"""In the order of their ids, from 0."""


def word_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer of words divided by white space; BOS comes first where special tokens are wanted.

    The words have the ids after those of ``SPECIAL``, in the order given. Decoding puts single blanks between words.

    Raises:
        OptionError: no words, a word twice, a special token, or one that holds white space or nothing.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    _check(words)
    # Special tokens first, so that their ids are the same for every task.
    ids = {word: number for number, word in enumerate((*SPECIAL, *words))}
    backend = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, ids[BOS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
    )


def _check(words: Sequence[str]) -> None:
    if not words:
        raise OptionError("A vocabulary needs at least one word; give the words= of a task.")
    for word in words:
        if word.split() != [word]:
            raise OptionError(f"{word!r} is no word: words are divided by white space, and hold none.")
        if word in SPECIAL:
            raise OptionError(f"{word!r} is a special token; special tokens: {', '.join(SPECIAL)}.")
    twice = [word for number, word in enumerate(words) if word in words[:number]]
    if twice:
        raise OptionError(f"{twice[0]!r} is given twice; every word is one token.")

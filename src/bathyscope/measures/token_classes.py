"""Classes of tokens by how they are written: ending in "ing", digits, capitals, beginning with white space."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bathyscope.prompts.tokenizer import ask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ANCHOR = "a"


def _punctuation(text: str) -> bool:
    return bool(text) and all(unicodedata.category(letter).startswith("P") for letter in text)


CLASSES: Mapping[str, Callable[[str], bool]] = {
    "ing": lambda text: text.endswith("ing"),
    "digits": lambda text: text.strip().isdecimal(),
    "capitals": lambda text: text.strip()[:1].isupper(),
    "whitespace": lambda text: text[:1].isspace(),
    "punctuation": lambda text: _punctuation(text.strip()),
}
"""Name → whether a token's text, with the white space before it, belongs to the class."""


def texts_within(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Each token's text as it stands within a sentence.

    Decoded alone, a token may lose the white space it begins with; so each is decoded after a letter.
    """
    anchor = ask(tokenizer, _ANCHOR, add_special_tokens=False, verbose=False)["input_ids"]
    before = str(ask(tokenizer.decode, anchor, clean_up_tokenization_spaces=False))
    texts = ask(tokenizer.batch_decode, [[*anchor, i] for i in ids], clean_up_tokenization_spaces=False)
    return [str(text).removeprefix(before) for text in texts]


def members(tokenizer: PreTrainedTokenizerBase | None, ids: Sequence[int]) -> NDArray[np.bool_]:
    """[classes, ids]: which tokens belong to which class; special tokens, and all without a tokenizer, to none."""
    if tokenizer is None:
        return np.zeros((len(CLASSES), len(ids)), dtype=bool)
    special = set(tokenizer.all_special_ids)
    texts = ["" if i in special else text for i, text in zip(ids, texts_within(tokenizer, ids))]
    return np.array([[belongs(text) for text in texts] for belongs in CLASSES.values()], dtype=bool)

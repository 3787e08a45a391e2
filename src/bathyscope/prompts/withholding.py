"""Prompts of which no text may be stored: labels that hold texts are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bathyscope.errors import warn
from bathyscope.prompts.prompts import Prompts

_MOST_WORDS: Final = 4
"""A label of more words is a text, and no name of a group."""


def without_text_labels(prompts: Prompts) -> Prompts:
    """Return prompts without the labels that hold texts, with a warning that names them.

    A label holds texts where one of its values has more than four words, or has several that stand in the prompt
    itself, such as the question of a file's row.
    """
    texts = [name for name in prompts.labels if any(_is_text(prompts, n, name) for n in range(len(prompts)))]
    if not texts:
        return prompts
    warn(
        f"The labels {', '.join(map(repr, texts))} hold texts and are left out, since no text is stored "
        "(keep_text=False, --no-keep-text)."
    )
    items = tuple(
        replace(prompt, labels={name: value for name, value in prompt.labels.items() if name not in texts})
        for prompt in prompts.items
    )
    return replace(prompts, items=items)


def _is_text(prompts: Prompts, number: int, name: str) -> bool:
    value = prompts.items[number].labels.get(name)
    if not isinstance(value, str) or len(value.split()) < 2:
        return False
    return len(value.split()) > _MOST_WORDS or _letters(value) in _letters("".join(prompts.pieces(number)))


def _letters(text: str) -> str:
    """Letters and digits alone, which no tokenizer takes from a text."""
    return "".join(filter(str.isalnum, text.casefold()))

"""Prompts of which no text may be stored: labels that hold texts are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bathyscope.errors import warn
from bathyscope.prompts.prompts import Prompts

_LONG: Final = 12
"""Letters in a row that are more than a word, where they are in the prompt itself."""
_MOST_WORDS: Final = 4
"""A label of more words is a text, and no name of a group."""


def without_text_labels(prompts: Prompts) -> Prompts:
    """Return prompts without the labels that hold texts, with a warning that names them.

    A label holds texts where one of its values has more than four words, or has several that are in the prompt
    itself, such as the question of a file's row.
    """
    ids = [n for n, prompt in enumerate(prompts.items) if _holds_text(prompts, n, prompt.id)]
    if ids:
        warn(
            f"{len(ids)} prompts have ids that hold texts; they are numbered instead, since no text is stored "
            "(keep_text=False, --no-keep-text)."
        )
        numbered = {n: f"{prompts.dataset}/{n}" for n in ids}
        items = tuple(replace(prompt, id=numbered.get(n, prompt.id)) for n, prompt in enumerate(prompts.items))
        prompts = replace(prompts, items=items)
    texts = [
        name
        for name in prompts.labels
        if any(_holds_text(prompts, number, prompt.labels.get(name)) for number, prompt in enumerate(prompts.items))
    ]
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


def _holds_text(prompts: Prompts, number: int, value: object) -> bool:
    """Whether a label or an id has more words than a name has, or is in the prompt itself."""
    if not isinstance(value, str):
        return False
    letters = _letters(value)
    # scripts without blanks write many words in a row; a single word of a prompt may well be a group's name
    stands_there = letters in _letters("".join(prompts.pieces(number)))
    return len(value.split()) > _MOST_WORDS or (stands_there and (len(value.split()) > 1 or len(letters) > _LONG))


def _letters(text: str) -> str:
    """Letters and digits alone, which no tokenizer takes from a text."""
    return "".join(filter(str.isalnum, text.casefold()))

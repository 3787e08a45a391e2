"""Tokens as text, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CONTEXT: Final = 64
"""Tokens decoded along with one, so that the time grows with a text's length and not with its square."""


def pieces(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase | None) -> list[str]:
    """Each token as what it adds to the text before it; its number where there is no tokenizer.

    Decoded alone, many tokens would lose their leading space.
    """
    if tokenizer is None:
        return [str(token) for token in ids]
    found = []
    for first in range(0, len(ids), _CONTEXT):
        start = max(0, first - _CONTEXT)
        before = str(tokenizer.decode(list(ids[start:first]))) if first else ""
        for end in range(first + 1, min(first + _CONTEXT, len(ids)) + 1):
            text = str(tokenizer.decode(list(ids[start:end])))
            alone = not text.startswith(before)
            found.append(str(tokenizer.decode([ids[end - 1]])) if alone else text[len(before) :])
            before = text
    return found

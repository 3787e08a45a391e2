"""Windows of a corpus whose last token is, or is not, of a class: as many of either, none overlapping another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bathyscope.errors import PromptError
from bathyscope.prompts.corpus import corpus_prompts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WHOLE = 1 << 40


@dataclass(frozen=True)
class Contexts:
    """Contexts [contexts, window − 1], without the token that is to be predicted, and whether it is of the class.

    Args:
        ids: the tokens before it, BOS first where the tokenizer has one.
        labels: 1 where the token that follows is of the class, else 0.
        training: True where probes are fitted; half of either label.
    """

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    training: NDArray[np.bool_]


def balanced_contexts(
    corpus: str | Path,
    tokenizer: PreTrainedTokenizerBase,
    in_class_V: NDArray[np.bool_],
    *,
    window: int,
    count: int,
    characters: int | None,
    seed: int,
) -> Contexts:
    """``count`` contexts of ``window`` tokens, half of which end in a token of the class; fewer if the text has fewer.

    Args:
        in_class_V: True at the class's token ids.
        seed: of the choice, and of the split into training and held-out contexts.
    """
    (whole,) = corpus_prompts(str(corpus), tokenizer=tokenizer, context=_WHOLE, limit=characters)
    start = () if tokenizer.bos_token_id is None else (int(tokenizer.bos_token_id),)
    stream = np.array((whole.ids or ())[len(start) :])
    text_tokens = window - len(start)
    if len(stream) < text_tokens:
        raise PromptError(f"{corpus} has {len(stream)} tokens, fewer than one context of {window}; give a longer text.")
    draw = np.random.default_rng(seed)
    # Contexts share no token: overlapping ones in both halves would let a probe remember its test.
    free = np.ones(len(stream), dtype=bool)
    ends = np.arange(text_tokens - 1, len(stream))
    of_class = in_class_V[stream[ends]]
    sides = (_without_overlap(draw.permutation(ends[side]), free, text_tokens) for side in (of_class, ~of_class))
    # in turn, so that neither side takes the room of the other
    pairs = list(islice(zip(*sides), count // 2))
    size = len(pairs)
    if size < 1:
        n_of_class = int(of_class.sum())
        raise PromptError(
            f"{corpus}: {n_of_class} of its {len(ends)} contexts of {window} tokens end in a token of the class, so "
            "that no two can be set against each other; give a longer text."
        )
    chosen = [end for side in zip(*pairs) for end in side]
    ids = np.array([[*start, *stream[end - text_tokens + 1 : end]] for end in chosen])
    training = np.tile(np.arange(size) < (size + 1) // 2, 2)  # either label was drawn in random order
    return Contexts(ids, np.repeat([1, 0], size), training)


def _without_overlap(ends: NDArray[np.int64], free: NDArray[np.bool_], length: int) -> Iterator[int]:
    """Ends whose windows are free when it is their turn; marks their tokens as taken."""
    for end in ends.tolist():
        place = slice(end - length + 1, end + 1)
        if free[place].all():
            free[place] = False
            yield end

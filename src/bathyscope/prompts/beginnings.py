"""Beginnings that prompts have in common, such as few-shot examples, which a model reads alike in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

MOSTLY: Final = 0.5
"""Share of tokens in common beginnings above which means over all tokens are mostly of these."""


def share_in_common(prompts: Iterable[Sequence[int]]) -> float:
    """Return the share of all tokens that stand in a beginning which another prompt has as well, 0 … 1.

    Copies of a prompt count once: nothing in them differs.

    Example:
        >>> from bathyscope.prompts.beginnings import share_in_common
        >>> share_in_common([[1, 2, 3, 4], [1, 2, 3, 5], [6, 7]])
        0.6
    """
    ordered = sorted(set(map(tuple, prompts)))
    # in this order a prompt stands next to the one that it has most in common with
    common = [_length_in_common(first, second) for first, second in pairwise(ordered)]
    longest = map(max, [0, *common], [*common, 0])
    n_tokens = sum(map(len, ordered))
    return sum(longest) / n_tokens if n_tokens else 0.0


def _length_in_common(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = zip(first, second)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))

"""Why the texts of levels tell no one order of difficulty, where they do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from bathyscope.prompts.parts import CLASSES, SCALES, number_in, numbers_in, rank

_MISREAD: Final = re.compile(
    r"\d[eE][-+−]?\d|(?<!\w)0[xXbBoO][\da-fA-F]|\d_\d|(?<!\d)\d{1,3}[ \u00a0\u202f]\d{3}(?!\d)"
)
"""Numbers of which ``numbers_in`` reads a part: powers of ten, other bases, thousands behind a line or a blank."""
_BEHIND: Final = re.compile(r"(?<=\d)(?:[kKMBGT]|%)(?!\w)")
"""What makes a number a thousand times as large, or a hundredth."""
_WORD: Final = re.compile(r"[a-z]+")


def order_fault(levels: Iterable[Any]) -> str:
    """Return why levels have no order of difficulty that :func:`rank` can know; empty where they have one.

    A text is ordered by its first number, and so by nothing where that is part of another way to write one (``1e3``,
    ``2k`` among numbers without that letter), where another text has it too, or where its other numbers, or its words,
    say the opposite.
    """
    texts = [level for level in levels if isinstance(level, str) and level not in CLASSES]
    unnumbered = [text for text in texts if number_in(text) is None]
    if unnumbered:
        scales = [scale for scale in SCALES if all(text.strip().lower() in scale for text in unnumbered)]
        return "" if len(unnumbered) == len(texts) and scales else f"{unnumbered[0]!r} tells no order"
    if misread := next((text for text in texts if _MISREAD.search(text)), None):
        return f"{misread!r} is no number that can be read"
    ordered = sorted(texts, key=rank)
    behind = [(_BEHIND.search(text) or ("",))[0].lower() for text in ordered]
    if len(set(behind)) > 1:
        scaled = next(text for text, unit in zip(ordered, behind) if unit)
        return f"{scaled!r} has a unit that others lack"
    for easier, harder in pairwise(ordered):
        if rank(easier)[1] == rank(harder)[1]:
            return f"{easier!r} and {harder!r} begin with one number"
    for easier, harder in _contradictions(ordered):
        return f"{easier!r} and {harder!r} tell two orders"
    return ""


def _contradictions(ordered: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield texts whose later numbers, or words of a scale, stand the other way round than their first number."""
    numbers = {text: numbers_in(text) for text in ordered}
    for count in sorted({len(values) for values in numbers.values()}):
        for easier, harder in pairwise([text for text in ordered if len(numbers[text]) == count]):
            if any(first > second for first, second in zip(numbers[easier], numbers[harder])):
                yield easier, harder
    for scale in SCALES:
        places = {
            text: [scale.index(word) for word in _WORD.findall(text.lower()) if word in scale] for text in ordered
        }
        for easier, harder in pairwise([text for text in ordered if places[text]]):
            if max(places[easier]) > max(places[harder]):
                yield easier, harder

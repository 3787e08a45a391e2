"""Four classes of added loss, each with a colour, and how a loss is written."""

import math
from collections.abc import Sequence
from typing import Final

LIMITS: Final = (0.1, 0.3, 1.0)
"""Nats at which the next class begins."""
COLOURS: Final = ("#d7dbe0", "#8fb8d8", "#e8a15d", "#c4501b")
"""Fill of each class on light ground: the more it costs, the darker, in grey print too."""
LETTERS: Final = ("#20242b", "#20242b", "#20242b", "#ffffff")
"""Colour of letters on each fill."""
DARK_COLOURS: Final = ("#2b3139", "#35607f", "#c08242", "#ffa074")
"""The same on dark ground, where what costs most is the brightest."""
DARK_LETTERS: Final = ("#e6e9ee", "#ffffff", "#15181d", "#15181d")
BAR_LOW: Final = 0.03
"""Loss in nats at the foot of a bar, which is logarithmic."""
NAMES: Final = ("under 0.1", "0.1 to 0.3", "0.3 to 1", "1 and over")
CARRIES: Final = 2
"""Class from where a block is said to carry the model."""


def rounded(loss: float) -> float:
    """Return the loss as it is written: two decimals below 1, one below 10, none above."""
    size = abs(loss)
    digits = 2 if size < 0.995 else 1 if size < 9.95 else 0
    return round(loss, digits)


def highest_bar(losses: Sequence[float]) -> float:
    """Return the loss at the top of a scale of bars: the largest, and 1 nat at least."""
    return max([1.0, *(loss for loss in losses if not math.isnan(loss))])


def bar_share(loss: float, highest: float) -> float:
    """Return how far a loss reaches up a logarithmic scale of bars, 0 to 1; 0 for one below the scale."""
    return max(0.0, math.log(max(loss, BAR_LOW) / BAR_LOW) / math.log(highest / BAR_LOW))


def class_of(loss: float) -> int:
    """Return the class of a loss as it is written, so that number and colour never contradict each other."""
    written = rounded(loss)
    return sum(written >= limit for limit in LIMITS)


def write_cost(loss: float, *, short: bool = False) -> str:
    """Return ``+0.16``, ``−0.02`` or ``0.00``; a dash for a missing value.

    Args:
        short: without the plus and the leading 0, as narrow tiles have room for: ``.16``.
    """
    if math.isnan(loss):
        return "–"
    written = rounded(loss)
    size = abs(written)
    digits = 2 if size < 0.995 else 1 if size < 9.95 else 0
    text = f"{size:.{digits}f}"
    if float(text) == 0:
        return "0" if short else "0.00"
    if short:
        return f"{'−' if written < 0 else ''}{text.removeprefix('0')}"
    return f"{'−' if written < 0 else '+'}{text}"


def cost_text(loss: float) -> str:
    """Return ``+0.16 nats``."""
    return f"{write_cost(loss)} nats"

"""Texts as pictures can show them: letters that some font has, lines that a width has room for."""

import textwrap
from functools import cache
from typing import Final

from matplotlib import font_manager
from matplotlib.textpath import text_to_path

from bathyscope.core.text import code_point, elided, shown
from bathyscope.pages.figures.kit import style

_POINTS_PER_INCH: Final = 72
_LONGEST: Final = 200


def drawn_text(text: str) -> str:
    """The text with what acts as its escape, and letters that no font at hand can draw by their code point in brackets;
    lines stay lines."""
    return "".join(
        letter if letter == "\n" or _can_draw(letter) else code_point(letter) for letter in shown(text, "\n")
    )


@cache
def _can_draw(letter: str) -> bool:
    fonts = (font_manager.get_font(font_manager.findfont(family)) for family in style.families())
    return any(font.get_char_index(ord(letter)) for font in fonts)


def inches(text: str, points: float, weight: str = "bold") -> float:
    """Width of a line of text, by the widths of its letters."""
    font = font_manager.FontProperties(family=style.families(), size=points, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0]) / _POINTS_PER_INCH


def fitted(text: str, room: float, points: float, weight: str = "bold") -> str:
    """The line, or as many of its first letters as a width (inches) has room for, and an ellipsis."""
    kept = elided(text, _LONGEST)
    while len(kept) > 1 and (width := inches(kept, points, weight)) > room:
        kept = elided(kept.removesuffix("…"), max(1, min(len(kept) - 2, int(len(kept) * room / width))))
    return kept


def lines(text: str, room: float, points: float, weight: str = "bold") -> str:
    """The text in one line or two; what does not fit is cut."""
    if inches(elided(text, _LONGEST), points, weight) <= room:
        return text
    letters = max(1, int(len(text) * room / inches(text, points, weight)))
    wrapped = textwrap.wrap(text, letters)
    if len(wrapped) > 2:
        wrapped[1:] = [f"{wrapped[1]}…"]
    return "\n".join(fitted(line, room, points, weight) for line in wrapped)

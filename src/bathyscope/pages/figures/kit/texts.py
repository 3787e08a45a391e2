"""Texts as pictures can show them: letters that a font has, and lines that fit into a width."""

import textwrap
from functools import cache
from typing import Final

from matplotlib import font_manager
from matplotlib.textpath import text_to_path

from bathyscope.core.text import code_point, elided, legible, visible
from bathyscope.pages.figures.kit import style

_POINTS_PER_INCH: Final = 72
_LONGEST: Final = 200
_PLACE_LETTERS: Final = 20


def drawn_text(text: str) -> str:
    """Replace control characters by escapes, and letters that no font has by their code point; lines remain."""
    return "".join(
        letter if letter == "\n" or _can_draw(letter) else code_point(letter) for letter in legible(text, "\n")
    )


@cache
def _can_draw(letter: str) -> bool:
    fonts = (font_manager.get_font(font_manager.findfont(family)) for family in style.families())
    # A font that lacks a letter draws an empty box, the same for all letters that it lacks.
    return any(font.get_char_index(ord(letter)) for font in fonts)


def name_place(name: object) -> str:
    """Return the name that somebody gave a place, as titles and rows have it."""
    return f"‹{elided(visible(str(name)), _PLACE_LETTERS)}›"


def measure_text(text: str, points: float, weight: str = "bold") -> float:
    """Return the width of a line of text, from the widths of its letters."""
    font = font_manager.FontProperties(family=style.families(), size=points, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0]) / _POINTS_PER_INCH


def fit_line(text: str, room: float, points: float, weight: str = "bold") -> str:
    """Cut a line with an ellipsis where it is wider than ``room`` inches."""
    line = elided(text, _LONGEST)
    # Letters differ in width, so the first cut is an estimate, and one or two more follow.
    while len(line) > 1 and (width := measure_text(line, points, weight)) > room:
        line = elided(line.removesuffix("…"), max(1, min(len(line) - 2, int(len(line) * room / width))))
    return line


def break_lines(text: str, room: float, points: float, weight: str = "bold") -> str:
    """Break a text into at most two lines, and cut the rest."""
    if measure_text(elided(text, _LONGEST), points, weight) <= room:
        return text
    letters = max(1, int(len(text) * room / measure_text(text, points, weight)))
    wrapped = textwrap.wrap(text, letters)
    if len(wrapped) > 2:
        wrapped[1:] = [f"{wrapped[1]}…"]
    return "\n".join(fit_line(line, room, points, weight) for line in wrapped)


def wrap_line(text: str, room: float, points: float, weight: str = "bold") -> list[str]:
    """Break a line between words into lines of at most ``room`` inches; only words that are wider are cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure_text(longer, points, weight) <= room:
            lines[-1] = longer
        else:
            lines.append(fit_line(word, room, points, weight))
    return lines or [text]

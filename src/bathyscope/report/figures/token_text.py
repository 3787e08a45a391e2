"""Texts as figures can draw them: letters that no font has are named."""

from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from bathyscope.report.figures import style
from bathyscope.text import code_point, shown


def drawn_text(text: str) -> str:
    """The text with what acts as its escape, and letters that no font at hand can draw by their code point in brackets;
    lines stay lines."""
    return "".join(
        letter if letter == "\n" or _can_draw(letter) else code_point(letter) for letter in shown(text, "\n")
    )


@cache
def _can_draw(letter: str) -> bool:
    return any(_font(family).get_char_index(ord(letter)) for family in style.families())


@cache
def _font(family: str) -> FT2Font:
    return font_manager.get_font(font_manager.findfont(family))

"""Tokens as labels: white space and control characters made visible, long ones shortened, missing letters named."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from bathyscope.report.figures import style
from bathyscope.text import elided, shown

_LONGEST: Final = 14
_VISIBLE: Final = {" ": "␣", "\n": "⏎", "\t": "⇥"}
# Letters of these kinds leave no mark, or change the letters around them: controls, formats, separators, unassigned.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp")


def visible(piece: str) -> str:
    """A token as a reader can see it: ``" the"`` → ``␣the``, a line's end → ``⏎``, other signs without a shape by
    their code point in brackets, nothing at all → ``∅``. At most 14 letters."""
    return elided("".join(_letter(letter) for letter in piece) or "∅", _LONGEST)


def drawn_text(text: str) -> str:
    """The text with what acts as its escape, and letters that no font at hand can draw by their code point in brackets;
    lines stay lines."""
    return "".join(letter if letter == "\n" or _can_draw(letter) else _code(letter) for letter in shown(text, "\n"))


def _letter(letter: str) -> str:
    if letter in _VISIBLE:
        return _VISIBLE[letter]
    return _code(letter) if unicodedata.category(letter) in _INVISIBLE else letter


def _code(letter: str) -> str:
    return f"⟨{ord(letter):x}⟩"


@cache
def _can_draw(letter: str) -> bool:
    return any(_font(family).get_char_index(ord(letter)) for family in style.families())


@cache
def _font(family: str) -> FT2Font:
    return font_manager.get_font(font_manager.findfont(family))

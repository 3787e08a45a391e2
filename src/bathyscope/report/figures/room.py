"""Titles as long as a picture has room for, by the widths of their letters."""

import textwrap

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from bathyscope.report.figures import style
from bathyscope.text import elided

_POINTS_PER_INCH = 72
_LONGEST = 200


def inches(text: str, points: float, weight: str = "bold") -> float:
    """Width of a line of text."""
    font = FontProperties(family=style.families(), size=points, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0]) / _POINTS_PER_INCH


def fitted(text: str, room: float, points: float, weight: str = "bold") -> str:
    """The line, or as many of its first letters as a width (inches) has room for, and an ellipsis."""
    shown = elided(text, _LONGEST)
    while len(shown) > 1 and (width := inches(shown, points, weight)) > room:
        shown = elided(shown.removesuffix("…"), max(1, min(len(shown) - 2, int(len(shown) * room / width))))
    return shown


def lines(text: str, room: float, points: float, weight: str = "bold", most: int = 2) -> str:
    """The text in as few lines as it needs, at most so many; what does not fit is cut."""
    if inches(elided(text, _LONGEST), points, weight) <= room:
        return text
    letters = max(1, int(len(text) * room / inches(text, points, weight)))
    wrapped = textwrap.wrap(text, letters)
    if len(wrapped) > most:
        wrapped[most - 1 :] = [f"{wrapped[most - 1]}…"]
    return "\n".join(fitted(line, room, points, weight) for line in wrapped)

"""A picture as data: marks by role of colour, and texts whose width is estimated before they are placed.

What is drawn is decided once, here and by those who draw on it. Printers only write it down.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec

from bathyscope.pages.head.classes import COLOURS, DARK_COLOURS, DARK_LETTERS, LETTERS

P = ParamSpec("P")
ROLES: Final = {
    "ink": "#20242b",
    "muted": "#5f6773",
    "grid": "#d9dde3",
    "paper": "#fefefe",
    "blue": "#0072b2",
    "green": "#007a58",
    "vermilion": "#b34a00",
    "purple": "#8f4a76",
    # Classes of cost and the letters on them: on either ground what costs little is close to it.
    **{f"cost{level}": colour for level, colour in enumerate(COLOURS)},
    **{f"cost{level}-letter": colour for level, colour in enumerate(LETTERS)},
}
DARK_ROLES: Final = {
    "ink": "#e6e9ee",
    "muted": "#a3abb8",
    "grid": "#343a44",
    "paper": "#15181d",
    "blue": "#56b1e6",
    "green": "#2fc79b",
    "vermilion": "#f0894a",
    "purple": "#d68bbb",
    **{f"cost{level}": colour for level, colour in enumerate(DARK_COLOURS)},
    **{f"cost{level}-letter": colour for level, colour in enumerate(DARK_LETTERS)},
}
_REGULAR: Final = 0.615
_BOLD: Final = 0.69
_NARROW: Final = frozenset("iljtfI.,:;!|'() ")
_WIDE: Final = frozenset("mwMW%+−")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text, rather too wide than too narrow.

    Args:
        size: of the font, in the units of the canvas.
    """
    letter = _BOLD if bold else _REGULAR
    widths = {"narrow": 0.36, "wide": 0.93, "full": 1.05}
    total = 0.0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            total += widths["full"]
        elif character in _NARROW:
            total += widths["narrow"] * (1.1 if bold else 1.0)
        elif character in _WIDE:
            total += widths["wide"]
        else:
            total += letter
    return total * size


def wrap(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Break a text into lines of an estimated width."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, size, bold=bold) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line] if line else lines


@dataclass(frozen=True)
class Words:
    """A text.

    Args:
        x, y: of its anchor, on the line that its letters stand on.
        anchor: start, middle or end.
        fill: a fixed colour in place of the role's.
        halo: keeps it legible on lines.
        remark: follows in muted letters, in one element with the text, so that no font can make them overlap.
        label: what it names where whoever draws the picture may choose other words: ``x``, ``y`` or ``entry``.
    """

    x: float
    y: float
    content: str
    size: float
    role: str = "ink"
    anchor: str = "start"
    bold: bool = False
    fill: str = ""
    halo: bool = False
    remark: str = ""
    remark_size: float = 0.0
    label: str = ""


@dataclass(frozen=True)
class Stroke:
    """A line through points.

    Args:
        dash: lengths of dashes and gaps, as SVG writes them.
        is_curve: whether its corners are round.
    """

    points: Sequence[tuple[float, float]]
    role: str
    width: float
    opacity: float = 1.0
    dash: str = ""
    is_curve: bool = True


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: Sequence[tuple[float, float]]
    role: str
    opacity: float


@dataclass(frozen=True)
class Tile:
    """A rectangle in a role's colour, or in a fixed one."""

    x: float
    y: float
    width: float
    height: float
    role: str = ""
    fill: str = ""
    radius: float = 0.0
    opacity: float = 1.0

    @property
    def size(self) -> tuple[float, float]:
        """Width and height; a gap that is wider than its block leaves nothing."""
        return max(self.width, 0.0), max(self.height, 0.0)


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    role: str


Element = Words | Stroke | Area | Tile | Dot


@dataclass(frozen=True)
class NumberFrame:
    """Where the numbers of a picture are: its horizontal axis from 0 to ``end``, its vertical one from 0 to 1.

    Args:
        left, top, width, height: of the axes, in units of the canvas.
    """

    left: float
    top: float
    width: float
    height: float
    end: float = 1.0


def _adds(kind: Callable[P, Element]) -> Callable[Concatenate[Canvas, P], None]:
    """Return a method of canvases that adds an element of this kind."""

    def add(canvas: Canvas, *place: P.args, **look: P.kwargs) -> None:
        canvas.elements.append(kind(*place, **look))

    return add


class Canvas:
    """Elements of one picture in units of its view box, in the order in which they cover each other.

    ``head.svg`` prints them into pages, ``figures.kit.painting`` into figures of matplotlib.

    Args:
        width: of the view box; ``height`` is set by whoever finishes the picture.
    """

    def __init__(self, width: float) -> None:
        self.width = width
        self.height = 0.0
        self.frame: NumberFrame | None = None
        self.elements: list[Element] = []

    text, rect, circle, area = _adds(Words), _adds(Tile), _adds(Dot), _adds(Area)

    def line(self, x1: float, y1: float, x2: float, y2: float, role: str, width: float = 1.0, dash: str = "") -> None:
        """Draw a straight line."""
        self.elements.append(Stroke(((x1, y1), (x2, y2)), role, width, dash=dash, is_curve=False))

    def curve(self, points: Sequence[tuple[float, float]], role: str, width: float, opacity: float = 1.0) -> None:
        """Draw a line through points."""
        self.elements.append(Stroke(points, role, width, opacity))

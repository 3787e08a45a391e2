"""A small SVG canvas: marks by role of colour, and text whose width is estimated before it is placed.

Colours are classes with a fixed colour and, behind it, the variable of the page around: a program that knows no
variables shows the fixed colour, a page its own light or dark one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape
from typing import Final

from bathyscope.core.text import legible
from bathyscope.pages.head.classes import COLOURS, DARK_COLOURS, DARK_LETTERS, LETTERS

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
_DARK: Final = {
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
FONT: Final = "system-ui,'Segoe UI','DejaVu Sans',sans-serif"
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


class Canvas:
    """Elements of one picture in units of its view box."""

    def __init__(self, width: float) -> None:
        self.width = width
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        content: str,
        size: float,
        *,
        role: str = "ink",
        anchor: str = "start",
        bold: bool = False,
        fill: str = "",
        halo: bool = False,
        remark: str = "",
        remark_size: float = 0.0,
    ) -> None:
        """Write a text; ``anchor`` is start, middle or end, and a halo keeps it legible on lines.

        A remark follows in muted letters, in one element with the text, so that no font can make them overlap.
        """
        look = "".join(
            [
                f' text-anchor="{anchor}"' if anchor != "start" else "",
                ' font-weight="600"' if bold else "",
                f' fill="{fill}"' if fill else "",
            ]
        )
        classes = " ".join([*([] if fill else [f"bp-{role}"]), *(["bp-halo"] if halo else [])])
        named = f' class="{classes}"' if classes else ""
        self._parts.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}"{look}{named}>'
            f"{escape(legible(content))}{_span(remark, remark_size)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, role: str, width: float = 1.0, dash: str = "") -> None:
        """Draw a straight line."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<path d="M{_number(x1)} {_number(y1)}L{_number(x2)} {_number(y2)}" fill="none" '
            f'class="bp-{role}-line" stroke-width="{_number(width)}"{dashed}/>'
        )

    def curve(self, points: Sequence[tuple[float, float]], role: str, width: float, opacity: float = 1.0) -> None:
        """Draw a line through points."""
        path = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        faded = f' opacity="{opacity:g}"' if opacity < 1 else ""
        self._parts.append(
            f'<path d="M{path}" fill="none" class="bp-{role}-line" stroke-width="{_number(width)}" '
            f'stroke-linejoin="round"{faded}/>'
        )

    def area(self, points: Sequence[tuple[float, float]], role: str, opacity: float) -> None:
        """Fill a polygon."""
        path = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        self._parts.append(f'<path d="M{path}z" class="bp-{role}" opacity="{opacity:g}"/>')

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        role: str = "",
        fill: str = "",
        radius: float = 0.0,
        opacity: float = 1.0,
    ) -> None:
        """Draw a rectangle in a role's colour, or in a fixed one."""
        look = f' class="bp-{role}"' if role else f' fill="{fill}"'
        rounded = f' rx="{_number(radius)}"' if radius else ""
        faded = f' opacity="{opacity:g}"' if opacity < 1 else ""
        self._parts.append(
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(max(width, 0.0))}" '
            f'height="{_number(max(height, 0.0))}"{rounded}{look}{faded}/>'
        )

    def circle(self, x: float, y: float, radius: float, role: str) -> None:
        """Draw a dot."""
        self._parts.append(f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}" class="bp-{role}"/>')

    def svg(self, height: float, label: str, *, alone: bool = False, name: str = "") -> str:
        """Return the picture.

        Args:
            height: of the view box.
            label: the picture in words.
            alone: as a file of its own, with its own ground and both themes; else as part of a page, whose colours it
                takes.
            name: class of the element in a page.
        """
        box = f'viewBox="0 0 {_number(self.width)} {_number(height)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{escape(legible(label))}"'
        if alone:
            head += f' width="{_number(self.width)}" height="{_number(height)}"'
            ground = f'<rect width="{_number(self.width)}" height="{_number(height)}" class="bp-paper"/>'
        else:
            head, ground = f'{head} class="{name or "bp"}"', ""
        rules = f"<style>{style(alone=True)}</style>" if alone else ""
        return f'{head} font-family="{FONT}">{rules}{ground}{"".join(self._parts)}</svg>'


def _span(remark: str, size: float) -> str:
    if not remark:
        return ""
    return (
        f'<tspan dx="{_number(0.6 * size)}" font-size="{_number(size)}" font-weight="400" class="bp-muted">'
        f"{escape(legible(remark))}</tspan>"
    )


def style(*, alone: bool) -> str:
    """Return the rules of the roles' colours."""
    rules = "".join(
        f".bp-{role}{{fill:{colour};fill:var(--{role},{colour})}}"
        f".bp-{role}-line{{stroke:{colour};stroke:var(--{role},{colour})}}"
        for role, colour in ROLES.items()
    )
    paper = ROLES["paper"]
    rules += f".bp-halo{{paint-order:stroke;stroke:{paper};stroke:var(--paper,{paper});stroke-width:4px}}"
    if not alone:
        return rules
    dark = "".join(f"--{role}:{colour};" for role, colour in _DARK.items())
    return f"{rules}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"


def _number(value: float) -> str:
    """Return a place to a tenth, without superfluous digits."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"

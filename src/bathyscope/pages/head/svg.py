"""A canvas as SVG: marks get their colour from classes, behind each of which is the variable of the page around.

A program that knows no variables shows the fixed colour, a page its own light or dark one.
"""

from __future__ import annotations

from html import escape
from typing import Final

from bathyscope.core.text import legible
from bathyscope.pages.head.canvas import DARK_ROLES, ROLES, Area, Canvas, Dot, Element, Stroke, Tile, Words

FONT: Final = "system-ui,'Segoe UI','DejaVu Sans',sans-serif"


def print_svg(canvas: Canvas, label: str, *, alone: bool = False, name: str = "") -> str:
    """Return a picture as an SVG element.

    Args:
        label: the picture in words.
        alone: as a file of its own, with its own ground and both themes; else as part of a page, whose colours it
            takes.
        name: class of the element in a page.
    """
    width, height = _number(canvas.width), _number(canvas.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(legible(label))}"'
    )
    if alone:
        head += f' width="{width}" height="{height}"'
        ground = f'<rect width="{width}" height="{height}" class="bp-paper"/>'
    else:
        head, ground = f'{head} class="{name or "bp"}"', ""
    rules = f"<style>{style(alone=True)}</style>" if alone else ""
    elements = "".join(map(_print_element, canvas.elements))
    return f'{head} font-family="{FONT}">{rules}{ground}{elements}</svg>'


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
    dark = "".join(f"--{role}:{colour};" for role, colour in DARK_ROLES.items())
    return f"{rules}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"


def _print_element(element: Element) -> str:
    match element:
        case Words():
            return _print_words(element)
        case Stroke():
            path = "L".join(f"{_number(x)} {_number(y)}" for x, y in element.points)
            dashed = f' stroke-dasharray="{element.dash}"' if element.dash else ""
            joined = ' stroke-linejoin="round"' if element.is_curve else ""
            return (
                f'<path d="M{path}" fill="none" class="bp-{element.role}-line" '
                f'stroke-width="{_number(element.width)}"{joined}{dashed}{_fade(element.opacity)}/>'
            )
        case Area():
            path = "L".join(f"{_number(x)} {_number(y)}" for x, y in element.points)
            return f'<path d="M{path}z" class="bp-{element.role}"{_fade(element.opacity)}/>'
        case Tile():
            look = f' class="bp-{element.role}"' if element.role else f' fill="{element.fill}"'
            rounded = f' rx="{_number(element.radius)}"' if element.radius else ""
            width, height = map(_number, element.size)
            return (
                f'<rect x="{_number(element.x)}" y="{_number(element.y)}" width="{width}" '
                f'height="{height}"{rounded}{look}{_fade(element.opacity)}/>'
            )
        case Dot():
            return (
                f'<circle cx="{_number(element.x)}" cy="{_number(element.y)}" r="{_number(element.radius)}" '
                f'class="bp-{element.role}"/>'
            )


def _print_words(words: Words) -> str:
    look = "".join(
        [
            f' text-anchor="{words.anchor}"' if words.anchor != "start" else "",
            ' font-weight="600"' if words.bold else "",
            f' fill="{words.fill}"' if words.fill else "",
        ]
    )
    classes = " ".join([*([] if words.fill else [f"bp-{words.role}"]), *(["bp-halo"] if words.halo else [])])
    named = f' class="{classes}"' if classes else ""
    remark = ""
    if words.remark:
        size = words.remark_size
        remark = (
            f'<tspan dx="{_number(0.6 * size)}" font-size="{_number(size)}" font-weight="400" class="bp-muted">'
            f"{escape(legible(words.remark))}</tspan>"
        )
    return (
        f'<text x="{_number(words.x)}" y="{_number(words.y)}" font-size="{_number(words.size)}"{look}{named}>'
        f"{escape(legible(words.content))}{remark}</text>"
    )


def _fade(opacity: float) -> str:
    return f' opacity="{opacity:g}"' if opacity < 1 else ""


def _number(value: float) -> str:
    """Return a place to a tenth, without superfluous digits."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"

"""Parts that all pages share: what fills a template, and pictures as elements of a page."""

from collections.abc import Sequence
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bathyscope.core.text import shown
from bathyscope.pages.explorer import assets
from bathyscope.pages.export import write_output
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.svg import inline_svg

# Letters of a panel then have about the size of the page's own notes.
_REM_PER_INCH: Final = 6.9
_PAPER: Final = 43.9
"""Rem between the margins of an upright sheet, as the style sheet has them."""


def figure(
    drawing: Drawing, anchor: str, headings: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()
) -> dict[str, Any]:
    """What a template shows as a figure: pictures under a heading, every panel drawn once, with what is said of them.

    Args:
        anchor: unique on the page, and short: every mark of a picture says it.
        rows: the numbers behind it.
    """
    pictures = [_picture(panel, f"{anchor}-{number}") for number, panel in enumerate(drawing.panels)]
    return {"heading": drawing.heading, "note": drawing.note, "panels": pictures, "headings": headings, "rows": rows}


def write_page(template: str, out: Path, **content: Any) -> None:
    """Fill a template and write the page; whatever text comes from outside, nothing in it acts.

    Raises:
        StoreError: the file cannot be written.
    """
    environment = Environment(
        loader=PackageLoader("bathyscope.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: shown(value) if type(value) is str else value,
    )
    style_sheet = (files("bathyscope.pages") / "templates" / "page.css").read_text(encoding="utf-8")
    page = environment.get_template(template).render(
        style=Markup(style_sheet + assets.style()),
        version=metadata.version("bathyscope"),
        **content,
    )
    write_output(out, page.encode("utf-8"))


def _picture(panel: Panel, name: str) -> dict[str, Any]:
    """``width`` is that of what a telephone's screen is too narrow for, which is scrolled there, ``wide`` is what needs
    a row of its own anywhere, and ``sheet`` what needs a sheet of its own across on paper."""
    across = panel.size[0]
    rem = across * _REM_PER_INCH
    return {
        "svg": Markup(inline_svg(panel, name)),
        "alt": panel.alt,
        "width": f"{rem:.4g}rem" if across > style.MAP_SIZE[0] else None,
        "wide": across > style.PAIRED_UP_TO,
        "sheet": rem > _PAPER,
    }

"""Parts of all pages: filling a template, and pictures as elements of a page."""

from collections.abc import Sequence
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from bathyscope.core.output import write_output
from bathyscope.pages.explorer import assets
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.svg import inline_svg
from bathyscope.pages.head.drawing import profile_style
from bathyscope.pages.text.environment import environment

# At this scale letters in a panel are about as large as the page's own notes.
_REM_PER_INCH: Final = 6.9
_PAPER: Final = 43.9
"""Rem between the margins of a portrait sheet, as in the style sheet."""


def figure(
    drawing: Drawing, anchor: str, headings: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()
) -> dict[str, Any]:
    """Return what a template shows as a figure: pictures, caption and numbers under a heading.

    Args:
        anchor: unique on the page, and short, because every mark of a picture repeats it.
        rows: the numbers behind the figure.
    """
    pictures = [_embed_panel(panel, f"{anchor}-{number}") for number, panel in enumerate(drawing.panels)]
    return {"heading": drawing.heading, "note": drawing.note, "panels": pictures, "headings": headings, "rows": rows}


def write_page(template: str, out: Path, **content: Any) -> None:
    """Fill a template and write the page, with all text from outside escaped.

    Raises:
        StoreError: the file cannot be written.
    """
    style_sheet = (files("bathyscope.pages") / "templates" / "page.css").read_text(encoding="utf-8")
    page = (
        environment()
        .get_template(template)
        .render(
            style=Markup(style_sheet + assets.style() + profile_style()),
            version=metadata.version("bathyscope"),
            **content,
        )
    )
    write_output(out, page.encode("utf-8"))


def _embed_panel(panel: Panel, name: str) -> dict[str, Any]:
    """Return a panel's picture, with its description and the room that it needs.

    ``width`` is set where a telephone's screen is too narrow and scrolls, ``wide`` where the picture needs a row of
    its own, and ``sheet`` where it needs a landscape sheet on paper.
    """
    across = panel.size[0]
    rem = across * _REM_PER_INCH
    return {
        "svg": Markup(inline_svg(panel, name)),
        "alt": panel.alt,
        "width": f"{rem:.4g}rem" if across > style.MAP_SIZE[0] else None,
        "wide": across > style.PAIRED_UP_TO,
        "sheet": rem > _PAPER,
    }

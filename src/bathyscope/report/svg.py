"""A panel as SVG inside a page: ids that no other picture uses, colours that the page may change."""

from __future__ import annotations

import re
from typing import Final

from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Panel, draw_panel
from bathyscope.report.render import render

# The style element would reach beyond its own picture; the page's style sheet has the same rule.
_UNWANTED: Final = re.compile(r"<metadata>.*?</metadata>\s*|<style .*?</style>\s*", re.DOTALL)
_ID: Final = re.compile(r'\bid="([^"]+)"')
_REFERENCE: Final = re.compile(r'(url\(#|href="#)([^")]+)')


def inline_svg(panel: Panel, name: str) -> str:
    """The panel's ``<svg>`` element.

    Args:
        panel: is drawn in its own size; the page scales it.
        name: unique on the page, letters, digits and hyphens; all ids begin with it.
    """
    text = render(draw_panel(panel), "svg", salt=name, text_as_text=True).decode()
    text = _UNWANTED.sub("", text[text.index("<svg") :])
    text = _ID.sub(rf'id="{name}-\1"', text)
    text = _REFERENCE.sub(rf"\1{name}-\2", text)
    for colour, variable in style.CSS_NAMES.items():
        text = text.replace(f": {colour}", f": var({variable}, {colour})")
    return text

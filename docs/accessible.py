"""What the theme's pages lack for those who read by keyboard or ear, added when the site has been written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

REPLACEMENTS = (
    # captions of the contents are headings of no level
    (r'<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    # two regions of one kind need names
    (r'<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
    (r'<aside class="toc-drawer([^"]*)">', r'<aside class="toc-drawer\1" aria-label="On this page">'),
    # what scrolls must be within reach of the keyboard
    (r"<pre>", '<pre tabindex="0">'),
    (r'<div class="table-wrapper ([^"]*)">', r'<div class="table-wrapper \1" tabindex="0">'),
    # the corner of a table heads nothing
    (r"<th(?: class=\"[^\"]*\")?>(?:<p></p>)?</th>", "<td></td>"),
    # arguments of a call are a list of lines and define nothing
    (r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>", lambda found: _write_lines(found[1])),
)
"""Patterns of the theme's HTML, and what is written for them."""
SEARCH_HEADING = ('<article role="main" id="furo-main-content">', "<h1>Search</h1>")


def _write_lines(arguments: str) -> str:
    lines = re.sub(r"<dd>(.*)</dd>", r'<span class="argument-line">\1</span>', arguments)
    return f'<span class="argument-lines">\n{lines}</span>'


def complete(page: str, search: bool = False) -> str:
    """Return a page's HTML with roles, names and places for the keyboard; ``search``: that of the results."""
    for pattern, replacement in REPLACEMENTS:
        page = re.sub(pattern, replacement, page)
    if search:
        page = page.replace(SEARCH_HEADING[0], "".join(SEARCH_HEADING), 1)
    return page


def _complete_site(app: Sphinx, error: Exception | None) -> None:
    """Complete all pages that the theme wrote; reports are copied and complete by themselves."""
    if error is not None or app.builder.format != "html":
        return
    copied = {path.name for place in app.config.html_extra_path for path in (Path(app.srcdir) / place).glob("*.html")}
    for path in Path(app.outdir).rglob("*.html"):
        if path.name in copied:
            continue
        page = path.read_text(encoding="utf-8")
        completed = complete(page, path.name == "search.html")
        if completed != page:
            path.write_text(completed, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", _complete_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

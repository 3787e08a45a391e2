"""Names that somebody else chose, and what a page with them must not do in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.browser import browser, opened

MARK: Final = "onerror=document.title='taken'"
EVIL: Final = f'|<u>`*_[a](javascript:1)"<img src=x {MARK}>\x1b]0;taken\x07\u202e'
"""Ends a cell, a code span, a link and an attribute; begins an element that no page has, early enough for names that
are shortened; loads a picture that fails; names a terminal; turns the text."""
FILE: Final = EVIL.replace("/", "")
"""The same as the name of a file or a folder."""


def assert_read_and_inert(*files: Path, shows: str = MARK) -> None:
    """Open pages or pictures, unfold all of them, and see that their names are read and do nothing.

    Args:
        shows: of the names, what stands on each.
    """
    with browser() as program:
        for file in files:
            content = file.read_text(encoding="utf-8")
            assert not {"\x1b", "\x07", "\u202e"} & set(content), file
            with opened(program, file) as one:
                one.unfold()
                assert shows in one.page.evaluate("document.body ? document.body.innerText : ''"), file
                assert one.page.locator("img[src=x], a[href^=javascript], u").count() == 0, file
                assert one.page.title() != "taken", file
            assert one.said == [], file
            assert [address for address in one.asked if not address.startswith(("file://", "data:"))] == [], file
            assert f"file://{file.parent}/x" not in one.asked, file

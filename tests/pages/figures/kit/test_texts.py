from __future__ import annotations

import pytest

from bathyscope.core.text import visible
from bathyscope.pages.figures.kit.texts import drawn_text


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (" the", "␣the"),
        ("\n\n", "⏎⏎"),
        ("a\tb", "a⇥b"),
        ("", "∅"),
        ("\x07", "⟨7⟩"),
        ("\u202e", "⟨202e⟩"),
        ("\xa0", "⟨a0⟩"),
        ("$x_{1}$", "$x_{1}$"),
        ("中", "中"),
        ("fourteen chars", "fourteen␣chars"),
        ("internationalisation", "international…"),
    ],
)
def test_every_token_can_be_seen(piece: str, shown: str) -> None:
    assert visible(piece) == shown


def test_letters_without_a_shape_in_any_font_are_named() -> None:
    assert drawn_text("é␣⏎⇥…⟨") == "é␣⏎⇥…⟨"
    # a private letter, for which no font has a shape
    assert drawn_text("a\U0010fffdb") == "a⟨10fffd⟩b"
    assert drawn_text("two\nlines") == "two\nlines"

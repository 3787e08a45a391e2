"""Titles of panels end within the figure: what a variable is called at length takes two lines."""

from __future__ import annotations

from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.texts import break_title, measure_text

LONG = "Change of the predictions of the answer when the residual stream of a named place is erased"


def test_a_long_title_takes_lines_that_fit_and_keeps_its_words() -> None:
    lines = break_title(LONG).splitlines()
    assert " ".join(lines) == LONG
    assert len(lines) == 2
    assert all(measure_text(line, style.TITLE_POINTS) < style.PANEL_SIZE[0] - 0.7 for line in lines)
    assert break_title("Loss added without a block") == "Loss added without a block"

"""Titles of panels end within the figure: what a variable is called at length takes two lines."""

from __future__ import annotations

import pytest
from support.synthetic import synthetic_run

import bathyscope
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.texts import break_title, measure_text

LONG = "Change of the predictions of the answer when the residual stream of a named place is erased"


def test_a_long_title_takes_lines_that_fit_and_keeps_its_words() -> None:
    lines = break_title(LONG).splitlines()
    assert " ".join(lines) == LONG
    assert len(lines) == 2
    assert all(measure_text(line, style.TITLE_POINTS) < style.PANEL_SIZE[0] - 0.7 for line in lines)
    assert break_title("Loss added without a block") == "Loss added without a block"


@pytest.mark.parametrize("width", [None, 3.3])
def test_no_title_is_cut_at_any_width(width: float | None) -> None:
    run = synthetic_run(L=6, prompts=3)
    run["drop"]["kl"].attrs["long_name"] = LONG.lower()
    figure = bathyscope.plot(run, "drop.kl", **({} if width is None else {"width": width}))
    figure.draw_without_rendering()
    titles = figure.findobj(lambda artist: hasattr(artist, "get_text") and artist.get_text().startswith("Change of"))
    assert titles
    for title in titles:
        assert title.get_text().replace("\n", " ") == LONG
        assert title.get_window_extent().x1 <= figure.bbox.x1

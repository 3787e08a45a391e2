"""Titles of panels end within the figure: what a variable is called at length takes two lines."""

from __future__ import annotations

from matplotlib.text import Text
from support import waves, zoo

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


def test_the_title_of_a_panel_ends_within_its_figure() -> None:
    ids = zoo.prompts(zoo.build("llama"), [8] * 2, 3)
    prompts = [bathyscope.Prompt(ids=each, answer_tokens=1) for each in ids]
    options = {"positions": {"at": 2}}
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["erasure"], erasure=options, progress=False)
    figure = bathyscope.plot(run, "erasure.effect_at").figure
    figure.canvas.draw()
    (title,) = [text for text in figure.findobj(Text) if text.get_text().replace("\n", " ") == LONG]
    assert title.get_window_extent().x1 <= figure.bbox.width

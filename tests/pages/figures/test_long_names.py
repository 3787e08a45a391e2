"""Names of prompts may be as long as somebody likes; no picture is left by them."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from support.artists import visible_texts
from support.synthetic_tokens import complete_run

from bathyscope.pages.comparison.side_by_side import side_by_side
from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.registry import FIGURES

NAMES = ["gsm8k-" + "x" * 90, "a problem of many words " * 5, "w" * 60]
RUNS = [complete_run(L=3, prompts=3, tokens=6, prompt_ids=NAMES, model=model) for model in ("one", "other")]


def outside(panel: Panel) -> list[str]:
    """Texts that leave the picture."""
    figure: Figure = draw_panel(panel)
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    return [
        text
        for text, box in visible_texts(figure)
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]


@pytest.mark.parametrize("name", ["skip", "direct", "erasure", "integrated_gradients", "patching"])
def test_long_names_of_prompts_stay_inside(name: str) -> None:
    panels = [panel for panel in FIGURES[name].panels(RUNS[0]) if "prompt" in panel.name]
    assert panels
    assert {panel.name: found for panel in panels if (found := outside(panel))} == {}


@pytest.mark.parametrize("name", ["erasure", "integrated_gradients"])
def test_long_names_of_prompts_stay_inside_beside_other_runs(name: str) -> None:
    panels = side_by_side(RUNS)[name].panels
    assert {panel.name: found for panel in panels if (found := outside(panel))} == {}

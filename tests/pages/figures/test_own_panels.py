"""Panels of a study's own are refused where they cannot be drawn, with what helps."""

from typing import Any

import pytest

from bathyscope.errors import OptionError
from bathyscope.extend.figures import Panel, arrange, heat_map_panel


@pytest.mark.parametrize("panels", [[], ["loss"], [None]])
def test_a_figure_needs_panels(panels: Any) -> None:
    with pytest.raises(OptionError, match="are not one Panel or more; give a list such as"):
        arrange("Loss", panels)


def test_a_panel_needs_something_that_draws_it() -> None:
    draw: Any = None
    with pytest.raises(OptionError, match="draw=None cannot be called; give a function that takes a figure"):
        Panel("loss", draw, "The loss.")


@pytest.mark.parametrize("size", [(0, 0), (4.6, -1.0), (float("nan"), 3.0), (float("inf"), 3.0)])
def test_a_panel_has_a_size(size: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match="is no size; give width and height in inches above 0"):
        Panel("loss", lambda figure: None, "The loss.", size)


@pytest.mark.parametrize("columns", [0, 4])
def test_a_panel_of_maps_needs_a_map(columns: int) -> None:
    with pytest.raises(OptionError, match=f"0 maps in {columns} columns are no panel; give one or more of each"):
        heat_map_panel("erasure", [], "Erasing", columns=columns)

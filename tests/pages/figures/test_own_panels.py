"""Panels of a study's own are refused where they cannot be drawn, with what helps."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bathyscope.errors import OptionError
from bathyscope.extend.figures import Colours, HeatMap, Panel, Side, arrange, bent_axis, heat_map_panel, render


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


@pytest.mark.parametrize(
    ("kind", "low", "high", "words"),
    [
        ("lin", 0.0, 1.0, "kind='lin' is unknown. Did you mean 'linear'"),
        ("linear", 1.0, 0.0, "low=1.0 and high=0.0 are no range; give the lower value first"),
        ("linear", float("nan"), 1.0, "are no range"),
        ("log", 0.0, 1.0, "above 0 of a log scale"),
    ],
)
def test_colours_span_a_range(kind: Any, low: float, high: float, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Colours(kind, low, high)


def test_a_map_has_rows_and_columns() -> None:
    sides = Side("token", "token"), Side("boundary", "boundary")
    with pytest.raises(OptionError, match=r"values of shape \[3\] are no map; give \[rows, columns\]"):
        HeatMap(np.ones(3), "one prompt", *sides, "change", "change", Colours("linear", 0.0, 1.0))


def test_what_is_no_figure_is_not_rendered() -> None:
    figure: Any = None
    with pytest.raises(OptionError, match="figure=None is no figure; give one of matplotlib"):
        render(figure, "png")


@pytest.mark.parametrize("linear", [0.0, -1.0, float("nan"), float("inf")])
def test_an_axis_is_linear_up_to_a_size(linear: float) -> None:
    with pytest.raises(OptionError, match="is no size that an axis is linear up to; give a number above 0"):
        bent_axis(Figure().subplots(), linear)

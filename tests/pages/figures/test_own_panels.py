"""Panels of a study's own are refused where they cannot be drawn, with what helps."""

import warnings
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from bathyscope.errors import OptionError
from bathyscope.extend.figures import (
    Colours,
    HeatMap,
    Panel,
    Side,
    arrange,
    bent_axis,
    heat_map_panel,
    log_axis,
    looks,
    render,
    whole_numbers,
)


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


_SIDES = Side("token", "token"), Side("boundary", "boundary")
_COLOURS = Colours("linear", 0.0, 1.0)


def _map(**changed: Any) -> HeatMap:
    rows, columns = _SIDES
    fields: dict[str, Any] = {
        "values": np.eye(2),
        "title": "one prompt",
        "rows": rows,
        "columns": columns,
        "quantity": "change",
        "short": "change",
        "colours": _COLOURS,
    }
    return HeatMap(**{**fields, **changed})


@pytest.mark.parametrize("ax", [None, Figure()])
def test_a_scale_is_of_axes(ax: Any) -> None:
    for change in (log_axis, lambda where: bent_axis(where, 0.1)):
        with pytest.raises(OptionError, match=r"is of type \w+. Give axes of plt.subplots"):
            change(ax)


@pytest.mark.parametrize(
    ("values", "count"), [([-1.0, 0.0, 5.0], 2), ([0.0, 5.0], 1), ([1.0, 5.0], 0), ([np.nan, 2.0], 0)]
)
def test_points_without_a_place_on_a_logarithmic_axis_are_counted(values: list[float], count: int) -> None:
    ax = Figure().subplots()
    ax.plot(values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log_axis(ax)
    words = f"{count} of {len(values)} points of the curves are 0 or less, where a logarithmic axis has no place"
    assert [str(w.message).startswith(words) and "bent_axis(ax, linear)" in str(w.message) for w in caught] == [
        True
    ] * (count > 0)


def test_a_size_of_another_type_bends_no_axis() -> None:
    linear: Any = "0.1"
    with pytest.raises(OptionError, match=r"linear='0\.1' is no size"):
        bent_axis(Figure().subplots(), linear)


@pytest.mark.parametrize("count", ["3", 2.5, -1])
def test_looks_and_ticks_are_counted_in_whole_numbers(count: Any) -> None:
    with pytest.raises(OptionError, match=f"count.*{count}"):
        looks(count)
    with pytest.raises(OptionError, match=f"most.*{count}"):
        whole_numbers(count)


def test_no_tick_is_no_axis() -> None:
    with pytest.raises(OptionError, match="most=0 is out of range; allowed: 1 or more"):
        whole_numbers(0)


def test_a_single_panel_or_map_is_no_list() -> None:
    panel: Any = Panel("loss", lambda figure: None, "The loss.")
    with pytest.raises(OptionError, match="are not one Panel or more; give a list such as"):
        arrange("Loss", panel)
    single: Any = _map()
    with pytest.raises(OptionError, match="maps=an object of type HeatMap are no list of maps; give one such as"):
        heat_map_panel("erasure", single, "Erasing")


def test_one_length_is_no_size() -> None:
    size: Any = 3
    with pytest.raises(OptionError, match="size=3 is no size; give width and height"):
        Panel("loss", lambda figure: None, "The loss.", size)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"values": np.array([["a", "b"]])}, "are no numbers; give an array"),
        ({"rows": "token"}, "rows='token' is no Side"),
        ({"columns": None}, "columns=None is no Side"),
        ({"colours": "blue"}, "colours='blue' are no Colours"),
        ({"hatched": (7,)}, r"hatched=\(7,\) are no rows of a map of 2"),
        ({"starred": ((0, 5),)}, r"starred=\(\(0, 5\),\) are no cells \(row, column\) of a map of 2 × 2"),
        ({"rows": Side("token", "token", pieces=("one",))}, "1 pieces for 2 rows; give one for each"),
    ],
)
def test_a_map_is_what_it_says(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=f"HeatMap 'one prompt': .*{words}"):
        _map(**changed)


def test_a_list_of_lists_is_a_map() -> None:
    assert _map(values=[[1, 2], [3, 4]]).seen.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_pieces_are_a_list_of_texts() -> None:
    pieces: Any = "abc"
    with pytest.raises(OptionError, match="Side 'token': pieces='abc' are no list of texts"):
        Side("token", "token", pieces=pieces)


@pytest.mark.parametrize("values", [[1.0, 4.0], np.array([1.0, 4.0])])
def test_colours_span_a_list_too(values: Any) -> None:
    assert Colours.spanning(values, "linear").high == 4.0


def test_colours_span_numbers() -> None:
    texts: Any = ["a"]
    with pytest.raises(OptionError, match=r"values=\['a'\] are no numbers"):
        Colours.spanning(texts, "linear")
    end: Any = "0"
    with pytest.raises(OptionError, match=r"low='0' and high=1\.0 are no range"):
        Colours("linear", end, 1.0)

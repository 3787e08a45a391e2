"""The figure of depth by number of steps: what it draws is what the results hold."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.problem_depth.classes import by_class
from studies.problem_depth.figure import caption, draw, panels
from studies.problem_depth.readings import READINGS

BLOCKS, SEEDS, STEPS = [2, 4], [0, 1], [1, 2, 3]


@pytest.fixture
def data() -> xr.Dataset:
    steps = np.repeat(STEPS, 5)
    accuracy = np.array([[[1.0, 0.5, 0.2], [1.0, 0.95, 0.2]], [[1.0, 1.0, 0.9], [1.0, 1.0, 1.0]]])
    value = np.broadcast_to(steps * 1.5, (len(READINGS), 2, 2, len(steps)))
    one = ("reading", "blocks", "seed")
    slope = np.full((len(READINGS), 2, 2), 1.5)
    slope[0, 0, 0] = np.nan
    p_value = np.where(np.isnan(slope), np.nan, 0.001)
    return xr.Dataset(
        {
            "accuracy": (("blocks", "seed", "steps"), accuracy),
            "solved": (("blocks", "seed", "steps"), accuracy >= 0.9),
            "value": (("reading", "blocks", "seed", "prompt"), value),
            "slope": (one, slope),
            "ci_low": (one, slope - 0.1),
            "ci_high": (one, slope + 0.1),
            "p_value": (one, p_value),
            "p_holm": (one, p_value * 19),
        },
        {
            "blocks": BLOCKS,
            "seed": SEEDS,
            "steps": STEPS,
            "reading": list(READINGS),
            "prompt_steps": ("prompt", steps),
        },
        {"recipe": "permutations", "solved_from": "0.9", "asked": "200"},
    )


def titled(figure: Figure) -> dict[str, Axes]:
    axes = [found for found in figure.findobj(Axes) if isinstance(found, Axes)]
    return {ax.get_title("left") or ax.get_title(): ax for ax in axes}


def test_the_caption_counts_trends(data: xr.Dataset) -> None:
    assert "2 seeds" in caption(data)
    assert "after Holm's correction 19 of 19 rise and 0 fall" in caption(data)


def test_there_is_a_panel_for_every_reading(data: xr.Dataset) -> None:
    names = [panel.name for panel in panels(data)]
    assert names == ["accuracy", *(f"reading_{name}" for name in READINGS), "slopes"]
    assert "2 blocks: 1.00 at k=1, 0.20 at k=3; 4 blocks: 1.00 at k=1, 0.95 at k=3." in panels(data)[0].alt


def test_levels_that_not_every_seed_solves_are_hollow(data: xr.Dataset) -> None:
    axes = titled(draw(data))
    marks = [line for line in axes["Which problems are solved"].lines if line.get_marker() == "o"]
    filled, hollow = marks
    np.testing.assert_array_equal(filled.get_xdata(), [1])
    np.testing.assert_array_equal(hollow.get_xdata(), [2, 3])
    np.testing.assert_allclose(hollow.get_ydata(), [0.725, 0.2])


def test_readings_are_means_of_a_level(data: xr.Dataset) -> None:
    axes = titled(draw(data))
    line = axes["Boundaries at which a token matters"].lines[0]
    np.testing.assert_allclose(line.get_ydata(), [1.5, 3.0, 4.5])
    assert axes["Does depth rise with the steps?"].get_xlabel().startswith("slope (blocks or boundaries")


@pytest.fixture
def classed(data: xr.Dataset) -> xr.Dataset:
    """With classes: the deep model solves everything, the shallow one what takes one step."""
    right = xr.DataArray(np.ones((2, 2, 15), bool), {"blocks": BLOCKS, "seed": SEEDS}, ("blocks", "seed", "prompt"))
    right[0, :, 5:] = False
    return data.merge(by_class(data["value"], right, data["prompt_steps"].values))


def test_marks_of_classes_are_their_means(classed: xr.Dataset) -> None:
    names = [panel.name for panel in panels(classed)]
    assert names[-len(READINGS) - 1 :] == [*(f"classes_{name}" for name in READINGS), "same_steps"]
    assert panels(classed)[-2].alt.endswith("only deep: 3.75; both: 1.50.")
    assert "which of the models of 2 and 4 blocks solve a problem" in caption(classed)
    figure = draw(classed)
    ax = [ax for ax in figure.findobj(Axes) if ax.get_xlabel() == "solved by"][-1]
    for line in ax.lines:
        np.testing.assert_allclose(line.get_ydata(), [np.nan, np.nan, 3.75, 1.5])
    assert {line.get_label() for line in ax.lines} >= {"read in 4 blocks", "read in 2 blocks"}
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert labels == ["neither\nn = 0", "only shallow\nn = 0", "only deep\nk = 2.5, n = 10", "both\nk = 1.0, n = 5"]


def test_differences_at_equal_steps_are_drawn_with_their_intervals(classed: xr.Dataset) -> None:
    shape = classed["same_steps"].shape
    drawn = np.arange(np.prod(shape), dtype=float).reshape(shape)
    known = classed.assign(
        {
            f"same_steps{end}": (classed["same_steps"].dims, drawn + gap)
            for end, gap in (("", 0), ("_low", -1), ("_high", 2))
        }
    )
    axes = titled(draw(known))
    ax = axes["Only deep less both, at equal steps"]
    marks = [float(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    wanted = known["same_steps"].isel(pair=0).sel(read_in=["deep", "shallow"]).transpose("reading", "read_in", "seed")
    np.testing.assert_array_equal(marks, wanted.values.ravel())
    (first, *_) = ax.collections
    np.testing.assert_array_equal(first.get_segments()[0][:, 0], [marks[0] - 1, marks[0] + 2])

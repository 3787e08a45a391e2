"""What drawing costs, counted: how often the labels around axes are measured, and where that puts them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support.synthetic import without
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.pages.figures.kind import arrange, draw_panel, fill
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES

RUN = complete_run(L=4, prompts=3, tokens=8)


def test_what_stands_around_axes_is_measured_once_on_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured: Counter[Axes] = Counter()
    whole = Axes.get_tightbbox

    def counted(ax: Axes, *arguments: Any, **options: Any) -> Any:
        measured[ax] += 1
        return whole(ax, *arguments, **options)

    monkeypatch.setattr(Axes, "get_tightbbox", counted)
    kept = ("lens", "skip", "integrated_gradients")
    run = without(RUN, *(name for name in RUN if name not in kept))
    bathyscope.report([run], tmp_path / "page.html", options=FigureOptions(prompts_shown=1))
    assert len(measured) > 15
    assert set(measured.values()) == {1}


@pytest.mark.parametrize(("figure", "panel"), [("lens", "kl"), ("residual", "norms"), ("skip", "all")])
def test_axes_lie_where_matplotlib_would_put_them(figure: str, panel: str) -> None:
    (one,) = (own for own in FIGURES[figure].panels(RUN) if own.name == panel)
    with style.applied():
        usual = Figure(figsize=one.size, layout="constrained")
        fill(usual, one)
    drawn = draw_panel(one)
    places = []
    for own in (drawn, usual):
        own.draw_without_rendering()
        places.append([ax.get_position().extents for ax in own.axes])
    np.testing.assert_allclose(*places, atol=0.004)


def test_inner_axes_have_no_ticks_of_their_own() -> None:
    histograms = {panel.name: panel for panel in FIGURES["neurons"].panels(RUN)}["top_ing"]
    assert sum(ax.yaxis.get_visible() for ax in draw_panel(histograms).axes) == 1


def test_places_do_not_go_with_addresses_in_memory() -> None:
    """The solver's last bits do, and ids in an SVG are hashes of places; the grid is far above them."""
    figure = arrange("A heading", FIGURES["skip"].panels(RUN))
    figure.draw_without_rendering()
    parts = [inner for outer in figure.subfigs for inner in outer.subfigs]
    boxes = [one.bbox_relative for one in (*figure.subfigs, *parts)]
    boxes += [ax.get_position(original=True) for ax in figure.axes]
    assert len(figure.axes) > 4
    assert len(parts) > 1
    for box in boxes:
        np.testing.assert_array_equal(box.get_points(), box.get_points().round(9))

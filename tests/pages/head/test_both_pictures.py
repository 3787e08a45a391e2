"""The profile is drawn twice, for screens and for papers: both pictures hold the same numbers at the same places."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.profiled import profiled_run

from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.figures.of.profile import profile_panel
from bathyscope.pages.head import drawing, layouts
from bathyscope.pages.head.classes import COLOURS
from bathyscope.runs.run import Run

SVG = "{http://www.w3.org/2000/svg}"
WIDE = layouts.WIDE
HALF_PIXEL = 0.06 / WIDE.inner
"""Coordinates of an SVG have one decimal."""


def axes_of(run: Run) -> Any:
    return draw_panel(profile_panel(run)).axes


def svg_of(run: Run) -> ElementTree.Element:
    from bathyscope.pages.head.numbers import read_profile

    return ElementTree.fromstring(drawing.wide(read_profile(run)))


def places_of(path: ElementTree.Element, n_blocks: int) -> list[float]:
    xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", path.get("d", ""))]
    return [(x - WIDE.left) / WIDE.inner * n_blocks for x in xs]


@pytest.mark.parametrize("n_blocks", [8, 40])
def test_curves_are_at_the_same_places(n_blocks: int) -> None:
    control = profiled_run(4, readable=3.0, measures=("lens",))
    run = profiled_run(n_blocks, readable=5.0, controls={"untrained-0": control})
    lines = [line for line in axes_of(run)[0].lines if len(line.get_xdata()) in (5, n_blocks + 1)]
    paths = [path for path in svg_of(run).iter(f"{SVG}path") if path.get("class") in ("bp-ink-line", "bp-muted-line")]
    assert [len(line.get_xdata()) for line in lines] == [5, n_blocks + 1]
    drawn = [places_of(path, n_blocks) for path in paths if len(places_of(path, n_blocks)) in (5, n_blocks + 1)]
    assert len(drawn) == 2
    for line, places in zip(lines, drawn, strict=True):
        np.testing.assert_allclose(places, line.get_xdata(), rtol=0, atol=HALF_PIXEL * n_blocks)
    np.testing.assert_allclose(lines[0].get_xdata(), np.arange(5) * n_blocks / 4)


def test_bars_are_as_high_and_of_the_same_class() -> None:
    run = profiled_run(40, costs=np.geomspace(0.01, 8, 40).tolist())
    tiles = [f"bp-cost{level}" for level in range(len(COLOURS))]
    bars = [bar for bar in svg_of(run).iter(f"{SVG}rect") if bar.get("class") in tiles and not bar.get("rx")]
    patches = axes_of(run)[1].patches
    assert len(bars) == len(patches) == 40
    heights, shares = (
        np.array([float(bar.get("height", "")) for bar in bars]),
        np.array([patch.get_height() for patch in patches]),
    )
    for values in (heights, shares):  # each picture has a shortest bar of its own
        values -= values.min()
    np.testing.assert_allclose(heights / heights.max(), shares / shares.max(), rtol=0, atol=0.002)
    assert np.isclose(heights, 0).sum() == 7  # the losses up to 0.03 nats

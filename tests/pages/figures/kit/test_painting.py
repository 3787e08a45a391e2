"""One picture, two printers: marks, words and colours are the same, at the same places, on a page and in a figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon, Rectangle
from support.profiled import profiled_run

from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.kit.painting import paint
from bathyscope.pages.figures.of.profile import profile_panel
from bathyscope.pages.head.canvas import ROLES, Canvas
from bathyscope.pages.head.classes import COLOURS
from bathyscope.pages.head.drawing import draw_profile
from bathyscope.pages.head.layouts import NARROW, WIDE, ProfileLayout, paper_layout
from bathyscope.pages.head.numbers import Profile, read_profile
from bathyscope.pages.head.svg import print_svg

SVG = "{http://www.w3.org/2000/svg}"
PATH = re.compile(r"[ML]([-\d.]+) ([-\d.]+)")
INCHES = 6.75


def profiles() -> Iterator[Profile]:
    controls = {"untrained-0": profiled_run(4, readable=3.0, measures=("lens", "skip"))}
    yield read_profile(profiled_run(8, readable=5.0, controls=controls))
    yield read_profile(profiled_run(40, costs=np.geomspace(0.01, 8, 40).tolist()))
    yield read_profile(profiled_run(12, measures=("lens",)))
    yield read_profile(profiled_run(12, measures=("drop",)))


def painted(draw: Callable[[float], Canvas]) -> Axes:
    canvas = draw(INCHES)
    panel = Panel("a", lambda figure: paint(figure, draw), "", (INCHES, INCHES * canvas.height / canvas.width))
    (ax,) = draw_panel(panel).axes
    return ax


def colour_of(role: str) -> str:
    return ROLES[role.removeprefix("bp-").removesuffix("-line")]


@pytest.mark.parametrize("layout", [WIDE, NARROW])
@pytest.mark.parametrize("number", range(4))
def test_both_printers_show_the_same(layout: ProfileLayout, number: int) -> None:
    profile = list(profiles())[number]
    canvas = draw_profile(profile, layout)
    picture = ElementTree.fromstring(print_svg(canvas, "words"))
    ax = painted(lambda _: draw_profile(profile, layout))
    # units of the canvas: the axes are all of it, whatever their numbers
    (left, right), (foot, top) = ax.get_xlim(), ax.get_ylim()

    def units(points: Any) -> np.ndarray:
        values = np.asarray(points, dtype=float)
        x = (values[:, 0] - left) / (right - left) * canvas.width
        return np.stack([x, (top - values[:, 1]) / (top - foot) * canvas.height], axis=1)

    lines = [line for line in ax.lines if line.get_marker() == "None"]
    paths = [path for path in picture.iter(f"{SVG}path") if path.get("fill") == "none"]
    assert len(lines) == len(paths) > 0
    scale = lines[0].get_linewidth() / float(paths[0].get("stroke-width", ""))
    for line, path in zip(lines, paths, strict=True):
        np.testing.assert_allclose(
            units(line.get_xydata()), np.array(PATH.findall(path.get("d", "")), float), atol=0.06
        )
        assert to_hex(line.get_color()) == colour_of(path.get("class", ""))
        assert line.get_linewidth() == pytest.approx(scale * float(path.get("stroke-width", "")))
        assert line.is_dashed() == ("stroke-dasharray" in path.attrib)
    tiles = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    rects = list(picture.iter(f"{SVG}rect"))
    for tile, rect in zip(tiles, rects, strict=True):
        box = [float(rect.get(name, "")) for name in ("x", "y", "width", "height")]
        corners = units(
            [(tile.get_x(), tile.get_y() + tile.get_height()), (tile.get_x() + tile.get_width(), tile.get_y())]
        )
        np.testing.assert_allclose(corners.ravel(), [*box[:2], box[0] + box[2], box[1] + box[3]], atol=0.16)
        assert to_hex(tile.get_facecolor()) == colour_of(rect.get("class", ""))
    areas = [patch for patch in ax.patches if isinstance(patch, Polygon)]
    bands = [path for path in picture.iter(f"{SVG}path") if path.get("fill") != "none"]
    for area, band in zip(areas, bands, strict=True):
        corners = np.array(PATH.findall(band.get("d", "")), float)
        # matplotlib repeats the first corner, unless the last is at the same place
        np.testing.assert_allclose(units(area.get_xy())[: len(corners)], corners, atol=0.06)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    circles = list(picture.iter(f"{SVG}circle"))
    for dot, circle in zip(dots, circles, strict=True):
        place = (float(circle.get("cx", "")), float(circle.get("cy", "")))
        np.testing.assert_allclose(units(dot.get_xydata()), [place], atol=0.06)
        assert dot.get_markersize() == pytest.approx(2 * scale * float(circle.get("r", "")), rel=0.02)
    written = [[text.text or "", *(part.text for part in text)] for text in picture.iter(f"{SVG}text")]
    assert Counter(text.get_text() for text in ax.texts) == Counter(words for text in written for words in text)


def test_an_element_covers_those_before_it() -> None:
    ax = painted(lambda inches: draw_profile(next(profiles()), paper_layout(inches)))
    assert len({artist.get_zorder() for artist in (*ax.lines, *ax.patches, *ax.texts)}) == 1


@pytest.mark.parametrize("anchor", ["start", "middle", "end"])
def test_a_remark_is_next_to_its_text_at_any_resolution(anchor: str) -> None:
    canvas = Canvas(400)
    canvas.height = 60
    canvas.text(200, 30, "half of the tokens", 16, anchor=anchor, bold=True, remark="7.8 to 8.2", remark_size=12.5)
    ax = painted(lambda _: canvas)
    figure: Any = ax.figure
    gap = 0.6 * 12.5 * INCHES / 400
    for dpi in (60, 150, 300):
        figure.set_dpi(dpi)
        figure.draw_without_rendering()
        (label, remark) = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.x0)
        assert (remark.x0 - label.x1) / dpi == pytest.approx(gap, abs=0.02)
        ends = {"start": label.x0, "middle": (label.x0 + remark.x1) / 2, "end": remark.x1}
        assert ends[anchor] == pytest.approx(ax.transData.transform((200, 0))[0], abs=0.03 * dpi)


def test_numbers_of_the_axes_are_blocks_and_shares() -> None:
    """Whoever has the figure can go on drawing in it."""
    run = profiled_run(8, readable=5.0, controls={"untrained-0": profiled_run(4, readable=3.0, measures=("lens",))})
    profile = read_profile(run)
    assert profile.share is not None
    (ax,) = draw_panel(profile_panel(run)).axes
    curves = [line.get_xydata() for line in ax.lines if len(line.get_xdata()) in (5, 9)]
    np.testing.assert_allclose(curves[0][:, 0], np.arange(5) * 2.0, atol=1e-9)
    np.testing.assert_allclose(curves[1], np.stack([np.arange(9), profile.share.mean], axis=1), atol=1e-9)


def test_bars_are_as_high_as_their_class_and_loss() -> None:
    run = profiled_run(40, costs=np.geomspace(0.01, 8, 40).tolist())
    (ax,) = draw_panel(profile_panel(run)).axes
    bars = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) in COLOURS][:40]
    heights = np.array([patch.get_height() for patch in bars])
    assert (np.diff(heights) >= -1e-12).all()
    assert np.isclose(heights, heights[0]).sum() == 7  # the losses up to 0.03 nats

"""Panels of a journal's widths: no text is cut, none runs into another, and no axes collapse, in every format."""

from __future__ import annotations

import functools
from itertools import combinations

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support.artists import visible_texts
from support.profiled import profiled_run
from support.synthetic_tokens import complete_run

import bathyscope
from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.registry import FIGURES
from bathyscope.pages.figures.render import render
from bathyscope.pages.plotting import COLUMN, PAGE

RUN = complete_run(L=8, prompts=3, tokens=12)
"""Small, because every panel of it is drawn twice; the words and the tokens are as long as in others."""
LONGEST_NAMES = complete_run(L=30, prompts=2, tokens=40, model="an-organisation/a-model-with-a-rather-long-name-135M")
CUT_ANYWAY = ("international", "prompt ")
CHEAP = ("effective_depth", "depth_score", "erasure", "drop_and_swap", "swap_cosine")
"""The figures that have been cut most; all others are drawn with the thorough tests."""


@functools.cache
def panels(name: str) -> tuple[Panel, ...]:
    return tuple(FIGURES[name].panels(RUN))


def faults(figure: Figure) -> list[str]:
    """Texts that are cut or that overlap, and axes too small to be read, at the resolution of the figure."""
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    texts = list(visible_texts(figure))
    found = [
        f"cut: {text!r} at {box}"
        for text, box in texts
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    found += [
        f"overlap: {first!r} and {second!r}"
        for (first, a), (second, b) in combinations(texts, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    # Words of tokens and names of prompts are cut at a number of letters, whatever the width.
    found += [f"ellipsis: {text!r}" for text, _ in texts if text.endswith("…") and not text.startswith(CUT_ANYWAY)]
    for ax in figure.findobj(Axes):
        box = ax.get_window_extent()
        if ax.get_label() != "<colorbar>" and min(box.width, box.height) < 0.4 * figure.dpi:
            found.append(f"axes of {box.width:.0f} × {box.height:.0f} pixels")
    return found


def assert_fits(name: str) -> None:
    for panel in panels(name):
        for width in (COLUMN, PAGE):
            figure = draw_panel(panel, width)
            assert figure.get_figwidth() == width
            assert not faults(figure), (f"{name}.{panel.name}", width)


@pytest.mark.each
@pytest.mark.parametrize("name", CHEAP)
def test_nothing_is_cut_and_nothing_overlaps_at_a_journals_widths(name: str) -> None:
    assert_fits(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in FIGURES if name not in CHEAP])
def test_nothing_is_cut_and_nothing_overlaps_in_any_other_figure(name: str) -> None:
    assert_fits(name)


@pytest.mark.parametrize("what", ["effective_depth.estimates", "skip.prompts_all", "erasure.prompt_1", "lens.settling"])
def test_many_blocks_and_long_names_fit_too(what: str) -> None:
    assert not faults(bathyscope.plot(LONGEST_NAMES, what, width=COLUMN))


@pytest.mark.parametrize("blocks", [2, 12, 30, 126])
@pytest.mark.parametrize("readable", [0.1, 0.97])
def test_the_profile_fits_too(blocks: int, readable: float) -> None:
    """Depths at either end, where labels have least room, and controls of two kinds."""
    controls = {
        f"{kind}-0": profiled_run(blocks, readable=0.5 * blocks, measures=("lens", "skip"))
        for kind in ("untrained", "shuffled_blocks")
    }
    run = profiled_run(blocks, readable=readable * blocks, controls=controls if blocks == 12 else None)
    for width in (COLUMN, PAGE):
        # The strip of tiles is as low as its one line of numbers.
        cut = [fault for fault in faults(bathyscope.plot(run, "profile", width=width)) if not fault.startswith("axes")]
        assert cut == [], width


def test_a_file_has_the_size_of_its_figure_and_all_of_it() -> None:
    """What is tested of the figure holds for its files: PNG and SVG keep its shape, and cut nothing off."""
    figure = bathyscope.plot(RUN, "skip.all", width=COLUMN)
    inches = figure.get_size_inches()
    picture = render(figure, "svg").decode()
    width, height = (float(picture.split(f'{side}="')[1].split("pt")[0]) for side in ("width", "height"))
    assert (width, height) == pytest.approx(tuple(72 * inches), abs=0.01)
    header = render(figure, "png")[16:24]
    pixels = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    assert pixels == pytest.approx(tuple(160 * inches), abs=1)
    assert not faults(figure), "at the resolution of files"


def test_the_test_sees_what_it_should() -> None:
    """A figure whose title is too long and whose texts lie on each other."""
    figure = Figure(figsize=(2, 2))
    ax = figure.subplots()
    ax.set_title("a title that is much too long for two inches")
    ax.text(0.5, 0.5, "one text")
    ax.text(0.5, 0.5, "on another")
    kinds = {fault.partition(":")[0] for fault in faults(figure)}
    assert kinds == {"cut", "overlap"}

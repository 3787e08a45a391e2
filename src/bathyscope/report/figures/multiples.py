"""Small multiples: the same map for several prompts or models, with one colour bar for all."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Final

from matplotlib.figure import FigureBase

from bathyscope.report.figures import style
from bathyscope.report.figures.heat_map import (
    HeatMap,
    describe_largest,
    draw_colour_bar,
    draw_heat,
    same_colours,
)
from bathyscope.report.figures.kind import Panel
from bathyscope.report.figures.token_text import drawn_text

_CELL: Final = (2.4, 2.3)
_FRAME: Final = (0.5, 1.3)
_COLUMNS: Final = 4
_TITLE_LETTERS_PER_INCH: Final = 13
_TICKS: Final = 5


def panel(
    name: str, maps: Sequence[HeatMap], title: str, *, cell: tuple[float, float] = _CELL, columns: int = _COLUMNS
) -> Panel:
    """A panel of the maps, each under its own title, in one range of colours.

    Args:
        title: what all of them show.
        cell: width and height of one map, in inches.
        columns: at most this many in a row.
    """
    shown = same_colours(maps)
    across = min(columns, len(shown))
    down = ceil(len(shown) / across)
    size = (max(style.PANEL_SIZE[0], across * cell[0] + _FRAME[0]), down * cell[1] + _FRAME[1])
    said = "; ".join(f"{one.title}: {describe_largest(one)}" for one in shown)
    alt = f"{len(shown)} heat maps in the same colours. {title}. {said}."
    return Panel(name, partial(_draw, maps=shown, title=title, across=across, letters=_letters(cell)), alt, size)


def _letters(cell: tuple[float, float]) -> int:
    return int(cell[0] * _TITLE_LETTERS_PER_INCH)


def _draw(figure: FigureBase, maps: Sequence[HeatMap], title: str, across: int, letters: int) -> None:
    down = ceil(len(maps) / across)
    grid = figure.subplots(down, across, squeeze=False)
    for ax in grid.flat[len(maps) :]:
        ax.remove()
    used = list(grid.flat[: len(maps)])
    for place, (ax, shown) in enumerate(zip(used, maps)):
        heading = "\n".join(textwrap.wrap(shown.title, letters)[:2])
        image = draw_heat(ax, replace(shown, title=heading), labels=False, ticks=_TICKS)
        ax.set_title(ax.get_title(loc="left"), fontsize=8, fontweight="normal")
        ax.tick_params(axis="y", labelsize=7)
        if place + across >= len(maps):
            ax.set_xlabel(shown.columns.label, fontsize=7.5)
        if place % across == 0:
            ax.set_ylabel(shown.rows.label, fontsize=7.5)
    figure.suptitle(drawn_text(title), x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    draw_colour_bar(figure, image, maps, used)

"""Panels of heat maps: one alone, or several for prompts or models, in the same colours with one colour bar for all."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Final

import numpy as np
from matplotlib.figure import FigureBase

from bathyscope.pages.figures.kind import Member, Panel, Shared
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, describe_largest, draw_colour_bar, draw_heat, tokens_size
from bathyscope.pages.figures.kit.texts import lines

_CELL: Final = (2.4, 2.3)
_FRAME: Final = (0.5, 1.3)
_COLUMNS: Final = 4
_TITLE_POINTS: Final = 8
_HEADING_POINTS: Final = 9.5
_BESIDE_INCHES: Final = 0.35
"""Of a cell, what is left of its map."""
_LINE_INCHES: Final = 0.16
_TICKS: Final = 5
_WIDEST: Final = 10.5
_RUN_CELL: Final = (2.6, 2.5)
_TOKEN_FRAME: Final = 0.6


def alone(name: str, shown: HeatMap) -> Panel:
    """A panel of one map, which stands beside those of other runs."""
    rows, columns = shown.values.shape
    alt = (
        f"Heat map of {rows} {_several(shown.rows.short)} by {columns} {_several(shown.columns.short)}. "
        f"{shown.title}: {describe_largest(shown)}."
    )
    return Panel(name, partial(_draw_alone, shown=shown), alt, style.MAP_SIZE, (share(name, shown),))


def _several(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def share(name: str, shown: HeatMap) -> Shared:
    """The map as what other runs may show too."""
    return Shared(name, shown.key or shown.title, shown, _over_runs)


def panel(
    name: str, maps: Sequence[HeatMap], title: str, *, cell: tuple[float, float] = _CELL, columns: int = _COLUMNS
) -> Panel:
    """A panel of the maps, each under its own title, in one range of colours, so that equal colours are equal values.

    Args:
        title: what all of them show.
        cell: width and height of one map, in inches.
        columns: at most this many in a row.
    """
    first = maps[0].colours
    colours = Colours.spanning(np.concatenate([one.seen for one in maps]), first.kind, first.clips)
    shown = [replace(one, colours=colours) for one in maps]
    across = min(columns, len(shown))
    down = ceil(len(shown) / across)
    width = max(style.PANEL_SIZE[0], across * cell[0] + _FRAME[0])
    heading = lines(title, width - 2 * _LINE_INCHES, _HEADING_POINTS)
    size = (width, down * cell[1] + _FRAME[1] + _LINE_INCHES * heading.count("\n"))
    said = "; ".join(f"{one.title}: {describe_largest(one)}" for one in shown)
    alt = f"{len(shown)} heat maps in the same colours. {title}. {said}."
    draw = partial(_draw, maps=shown, title=heading, across=across, room=cell[0] - _BESIDE_INCHES)
    return Panel(name, draw, alt, size)


def _over_runs(name: str, members: Sequence[Member]) -> Panel:
    """The map of each run under the run's name; each keeps its own tokens."""
    maps = [replace(member.shown, title=member.run) for member in members]
    title = members[0].shown.title
    if maps[0].columns.pieces is None:
        return panel(name, maps, title, cell=_RUN_CELL)
    sizes = [tokens_size([shown], frame=_TOKEN_FRAME, narrowest=_RUN_CELL[0]) for shown in maps]
    cell = (max(width for width, _ in sizes), max(height for _, height in sizes))
    return panel(name, maps, title, cell=cell, columns=max(1, int(_WIDEST // cell[0])))


def _draw_alone(figure: FigureBase, shown: HeatMap) -> None:
    ax = figure.subplots()
    draw_colour_bar(figure, draw_heat(ax, shown), [shown], [ax])


def _draw(figure: FigureBase, maps: Sequence[HeatMap], title: str, across: int, room: float) -> None:
    down = ceil(len(maps) / across)
    grid = figure.subplots(down, across, squeeze=False)
    for ax in grid.flat[len(maps) :]:
        ax.remove()
    used = list(grid.flat[: len(maps)])
    for place, (ax, shown) in enumerate(zip(used, maps)):
        heading = lines(shown.title, room, _TITLE_POINTS, "normal")
        image = draw_heat(ax, replace(shown, title=heading), labels=False, ticks=_TICKS)
        ax.set_title(ax.get_title(loc="left"), fontsize=_TITLE_POINTS, fontweight="normal")
        ax.tick_params(axis="y", labelsize=7)
        if place + across >= len(maps):
            ax.set_xlabel(shown.columns.label, fontsize=7.5)
        if place % across == 0:
            ax.set_ylabel(shown.rows.label, fontsize=7.5)
    figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    draw_colour_bar(figure, image, maps, used)

"""Panels of heat maps: one map, or several prompts or models in the same colours with one colour bar."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, Final

import numpy as np
from matplotlib.figure import FigureBase

from bathyscope.errors import OptionError, describe_value
from bathyscope.pages.figures.kind import Member, Panel, Shared
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import (
    HeatMap,
    describe_largest,
    draw_colour_bar,
    draw_heat,
    measure_token_map,
)
from bathyscope.pages.figures.kit.texts import break_lines

_CELL: Final = (2.4, 2.3)
_FRAME: Final = (0.5, 1.3)
_COLUMNS: Final = 4
_TITLE_POINTS: Final = 8
_BESIDE_INCHES: Final = 0.35
"""Width of a cell next to its map, for labels."""
_TICKS: Final = 5
_NARROWEST_CELL: Final = 1.5
_RUN_CELL: Final = (2.6, 2.5)


def make_map_panel(name: str, heat: HeatMap) -> Panel:
    """Make a panel of one map, which is shared with other runs."""
    rows, columns = heat.values.shape
    alt = (
        f"Heat map of {rows} {_pluralise(heat.rows.short)} by {columns} {_pluralise(heat.columns.short)}. "
        f"{heat.title}: {describe_largest(heat)}."
    )
    return Panel(
        name,
        partial(draw_alone, heat=heat),
        alt,
        style.MAP_SIZE,
        (share_map(name, heat),),
        cut=partial(_cut_panel, name=name, heat=heat),
    )


def _cut_panel(blocks: range, name: str, heat: HeatMap) -> Panel | None:
    cut = heat.cut(blocks)
    return None if cut is None else make_map_panel(name, cut)


def _pluralise(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def share_map(name: str, heat: HeatMap) -> Shared:
    """Return the map as content that other runs may have too."""
    return Shared(name, heat.key or heat.title, heat, _join_runs)


def make_panel(
    name: str, maps: Sequence[HeatMap], title: str, *, cell: tuple[float, float] = _CELL, columns: int = _COLUMNS
) -> Panel:
    """Make a panel of maps under their own titles, where equal colours are equal values.

    Args:
        name: of the panel.
        maps: one or more, of one kind of colours.
        title: of the panel.
        cell: width and height of one map, in inches.
        columns: at most this many in a row.

    Raises:
        OptionError: no list of maps, or no column.

    Example:
        >>> from bathyscope.extend.figures import Colours, HeatMap, Side, heat_map_panel
        >>> values = np.array([[0.0, 0.5], [1.0, np.nan]])
        >>> sides = Side("token", "token"), Side("boundary (index)", "boundary")
        >>> heat = HeatMap(values, "one prompt", *sides, "change (share)", "change", Colours.spanning(values, "linear"))
        >>> heat_map_panel("erasure", [heat], "Erasing one token").name
        'erasure'
    """
    if not isinstance(maps, Sequence) or not all(isinstance(heat, HeatMap) for heat in maps):
        raise OptionError(f"maps={describe_value(maps)} are no list of maps; give one such as [HeatMap(...)].")
    if not maps or columns < 1:
        raise OptionError(f"{len(maps)} maps in {columns} columns are no panel; give one or more of each.")
    first = maps[0].colours
    # One range over all maps, so that prompts and models can be compared by eye.
    colours = Colours.spanning(np.concatenate([heat.seen for heat in maps]), first.kind, first.clips)
    recoloured = [replace(heat, colours=colours) for heat in maps]
    across = min(columns, len(recoloured))
    down = ceil(len(recoloured) / across)
    width = max(style.PANEL_SIZE[0], across * cell[0] + _FRAME[0])
    heading = break_lines(title, width - 2 * style.LINE_INCHES, style.TITLE_POINTS)
    size = (width, down * cell[1] + _FRAME[1] + style.LINE_INCHES * heading.count("\n"))
    descriptions = "; ".join(f"{heat.title}: {describe_largest(heat)}" for heat in recoloured)
    alt = f"{len(recoloured)} heat maps in the same colours. {title}. {descriptions}."
    draw = partial(_draw_maps, maps=recoloured, title=heading, across=across, cell=cell)
    return Panel(name, draw, alt, size)


def _join_runs(name: str, members: Sequence[Member]) -> Panel:
    """Place the maps of several runs next to each other; each keeps its own tokens."""
    maps = [replace(member.content, title=member.run) for member in members]
    title = members[0].content.title
    if maps[0].rows.pieces is None:
        return make_panel(name, maps, title, cell=_RUN_CELL)
    sizes = [measure_token_map(heat, narrowest=_RUN_CELL[0]) for heat in maps]
    cell = (max(width for width, _ in sizes), max(height for _, height in sizes))
    return make_panel(name, maps, title, cell=cell, columns=max(1, int(style.WIDEST // cell[0])))


def draw_alone(figure: FigureBase, heat: HeatMap) -> None:
    """Draw a heat map with its colour bar."""
    ax = figure.subplots()
    draw_colour_bar(figure, draw_heat(ax, heat), [heat], [ax])


def _draw_maps(figure: FigureBase, maps: Sequence[HeatMap], title: str, across: int, cell: tuple[float, float]) -> None:
    # A subfigure measures its own box; the resolution belongs to the whole figure.
    place: Any = figure
    width = place.bbox.width / place.figure.dpi
    # In a figure narrower than the panel's own, cells keep a readable width, and there are fewer in a row.
    across = max(1, min(across, round((width - _FRAME[0]) / min(cell[0], _NARROWEST_CELL))))
    room = min(cell[0], (width - _FRAME[0]) / across) - _BESIDE_INCHES
    down = ceil(len(maps) / across)
    grid = figure.subplots(down, across, squeeze=False)
    # The last row may have fewer maps than the grid has places.
    for ax in grid.flat[len(maps) :]:
        ax.remove()
    used = list(grid.flat[: len(maps)])
    for place_in_grid, (ax, heat) in enumerate(zip(used, maps)):
        heading = break_lines(heat.title, room, _TITLE_POINTS, "normal")
        image = draw_heat(ax, replace(heat, title=heading), labels=False, ticks=_TICKS)
        ax.set_title(ax.get_title(loc="left"), fontsize=_TITLE_POINTS, fontweight="normal")
        ax.tick_params(axis="y", labelsize=7)
        if place_in_grid + across >= len(maps):
            ax.set_xlabel(heat.columns.label, fontsize=7.5)
        if place_in_grid % across == 0:
            ax.set_ylabel(heat.rows.label, fontsize=7.5)
    head_figure(figure, title)
    draw_colour_bar(figure, image, maps, used)

"""Legends below a picture, never over a curve, with as many columns as fit."""

from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.legend import Legend

_LETTER_INCHES: Final = 0.07
_HANDLE_INCHES: Final = 0.55
_ROW_INCHES: Final = 0.165
_MOST_COLUMNS: Final = 6
_MARGIN_INCHES: Final = 0.04
_PLACED: Final[WeakSet[Legend]] = WeakSet()
_RAISED: Final[WeakKeyDictionary[Axes, tuple[tuple[float, float], tuple[float, float]]]] = WeakKeyDictionary()
"""Limits of axes before they were raised for a legend, and since."""
_COMPACT: Final = {"borderpad": 0.3, "labelspacing": 0.25, "columnspacing": 1.0, "handlelength": 1.6}
_LEAST_ROOM: Final = 0.4
"""Share of the height of axes that curves keep, however many names a legend has."""


def count_columns(labels: Sequence[str], width: float) -> int:
    """Return how many columns of these names fit into a width in inches; at least one."""
    widest = max(map(len, labels), default=0) * _LETTER_INCHES + _HANDLE_INCHES
    return max(1, min(_MOST_COLUMNS, len(labels), int(width / widest)))


def measure_height(labels: Sequence[str], width: float) -> float:
    """Return the height of the legend in inches."""
    return _ROW_INCHES * -(-len(labels) // count_columns(labels, width)) if labels else 0.0


def draw_legend(figure: FigureBase, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw the legend below the axes of a figure or subfigure."""
    # A subfigure measures its own box; the resolution belongs to the whole figure.
    place: Any = figure
    ncols = count_columns(labels, place.bbox.width / place.figure.dpi)
    place.legend(handles, labels, loc="outside lower center", ncols=ncols)


def place_legend(ax: Axes, *entries: Any, **look: Any) -> Legend:
    """Give axes a legend inside of them, which moves off the curves while the figure is filled."""
    legend = ax.legend(*entries, **look)
    _PLACED.add(legend)
    return legend


def resize_legend(ax: Axes, points: float) -> None:
    """Set letters of a placed legend; one that the caller has placed since stays as it is."""
    legend = ax.get_legend()
    if legend is not None and legend in _PLACED:
        for text in (*legend.get_texts(), legend.get_title()):
            text.set_fontsize(points)


def clear_legend(ax: Axes) -> None:
    """Move a placed legend off the curves of its axes: into other columns, or above them by a higher limit."""
    legend = ax.get_legend()
    # A legend that the caller has placed since stays where it is.
    if legend is None or legend not in _PLACED:
        return
    before, since = _RAISED.pop(ax, (None, None))
    if before is not None and ax.get_ylim() == since:
        # axes and letters may have another size now
        ax.set_ylim(before)
    if not _covers_curve(ax, legend):
        return
    entries: Any = (legend.legend_handles, [text.get_text() for text in legend.get_texts()])
    title = legend.get_title().get_text() or None
    look = {"title": title, "fontsize": legend.get_texts()[0].get_fontsize(), **_COMPACT}
    fitting = 1
    for columns in range(len(entries[1]), 0, -1):
        legend = place_legend(ax, *entries, loc="best", ncols=columns, **look)
        if legend.get_window_extent().width > ax.bbox.width:
            continue
        if not _covers_curve(ax, legend):
            return
        fitting = max(fitting, columns)
    legend = place_legend(ax, *entries, loc="upper center", ncols=fitting, **look)
    figure: Any = ax.get_figure()
    height = legend.get_window_extent().height + 2 * _MARGIN_INCHES * figure.dpi
    share = max(_LEAST_ROOM, 1 - height / ax.bbox.height)
    low, high = ax.get_ylim()
    scale = ax.yaxis.get_transform()
    ends = scale.transform(np.array([low, high]))
    if high > low:
        ax.set_ylim(low, float(scale.inverted().transform(ends[:1] + np.diff(ends) / share)[0]))
        _RAISED[ax] = (low, high), ax.get_ylim()


def _covers_curve(ax: Axes, legend: Legend) -> bool:
    box = legend.get_window_extent()
    return any(
        line.get_path().transformed(line.get_transform()).intersects_bbox(box, filled=False)
        for line in ax.lines
        if line.get_visible() and np.size(line.get_path().vertices)
    )

"""Legends below a picture, never over a curve, with as many columns as fit."""

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.figure import FigureBase

_LETTER_INCHES: Final = 0.07
_HANDLE_INCHES: Final = 0.55
_ROW_INCHES: Final = 0.165
_MOST_COLUMNS: Final = 6


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

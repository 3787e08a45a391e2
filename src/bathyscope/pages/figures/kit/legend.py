"""Legends below a picture, never over a curve: as many columns as its names leave room for."""

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.figure import FigureBase

_LETTER_INCHES: Final = 0.07
_HANDLE_INCHES: Final = 0.55
_ROW_INCHES: Final = 0.165
_MOST_COLUMNS: Final = 6


def columns(labels: Sequence[str], width: float) -> int:
    """How many columns of these names fit into a width (inches); at least one."""
    widest = max(map(len, labels), default=0) * _LETTER_INCHES + _HANDLE_INCHES
    return max(1, min(_MOST_COLUMNS, len(labels), int(width / widest)))


def height(labels: Sequence[str], width: float) -> float:
    """Inches that the legend takes."""
    return _ROW_INCHES * -(-len(labels) // columns(labels, width)) if labels else 0.0


def draw(figure: FigureBase, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """The legend below the axes of a figure or of a part of one."""
    place: Any = figure
    ncols = columns(labels, place.bbox.width / place.figure.dpi)
    place.legend(handles, labels, loc="outside lower center", ncols=ncols)

"""The layout of figures: axes take the room that their labels leave, and labels are measured once."""

from functools import partial
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox

_DIGITS: Final = 9
"""Digits of places, in widths and heights of a figure."""


class Rounded(ConstrainedLayoutEngine):
    """matplotlib's constrained layout, whose places are rounded: one figure always gives the same bytes."""

    def execute(self, fig: Figure) -> Any:
        """Place all axes of the figure."""
        try:
            return super().execute(fig)
        finally:
            _round_places(fig)


class MeasuredOnce(Rounded):
    """matplotlib's constrained layout at half the cost.

    It places axes twice, and measures every label of every tick each time, which is most of the cost of drawing. The
    second time, labels are assumed to reach as far beyond their axes as the first time.
    """

    def execute(self, fig: Figure) -> Any:
        """Place all axes of the figure."""
        watched = fig.axes
        for ax in watched:
            # An attribute of the instance hides the method of its class, for the time of one layout.
            ax.get_tightbbox = partial(_measure_once, ax, [])  # type: ignore[method-assign]
        try:
            return super().execute(fig)
        finally:
            for ax in watched:
                del ax.get_tightbbox


def _round_places(figure: Figure | SubFigure) -> None:
    """Round the places of all axes, so that one figure always gives the same bytes."""
    for part in figure.subfigs:
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(_DIGITS))
        _round_places(part)
    for ax in figure.axes:
        for which in ("original", "active"):
            place = ax.get_position(original=which == "original")
            # ``set_position`` would take the axes out of the layout.
            ax._set_position(Bbox(place.get_points().round(_DIGITS)), which=which)  # type: ignore[attr-defined]


def _measure_once(ax: Axes, margins: list[Any], renderer: RendererBase | None = None, **options: Any) -> Bbox | None:
    """Return ``ax.get_tightbbox``, after the first call from remembered margins."""
    if not margins:
        box = type(ax).get_tightbbox(ax, renderer, **options)
        margins.append(None if box is None else box.extents - _measure_axes(ax, renderer))
        return box
    return None if margins[0] is None else Bbox.from_extents(_measure_axes(ax, renderer) + margins[0])


def _measure_axes(ax: Axes, renderer: RendererBase | None) -> Any:
    locator: Any = ax.get_axes_locator()
    ax.apply_aspect(locator(ax, renderer) if locator else None)
    return ax.get_window_extent(renderer).extents

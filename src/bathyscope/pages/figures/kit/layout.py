"""The layout of figures: axes take what room their labels leave, and what stands around them is measured once."""

from functools import partial
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox

_DIGITS: Final = 9
"""Of places, in widths and heights of a figure."""


class MeasuredOnce(ConstrainedLayoutEngine):
    """matplotlib's constrained layout with half of its work.

    It places axes twice, and asks each time for every label of every tick, which is most of what drawing costs. The
    second time they are taken to reach as far beyond their axes as they did the first.
    """

    def execute(self, fig: Figure) -> Any:
        """Place all axes of the figure."""
        watched = fig.axes
        for ax in watched:
            ax.get_tightbbox = partial(_measured, ax, [])  # type: ignore[method-assign]
        try:
            return super().execute(fig)
        finally:
            for ax in watched:
                del ax.get_tightbbox
            _rounded(fig)


def _rounded(figure: Figure | SubFigure) -> None:
    """The solver's last bits go with addresses in memory, and the files of one figure have the same bytes."""
    for part in figure.subfigs:
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(_DIGITS))
        _rounded(part)
    for ax in figure.axes:
        for which in ("original", "active"):
            place = ax.get_position(original=which == "original")
            ax._set_position(Bbox(place.get_points().round(_DIGITS)), which=which)  # type: ignore[attr-defined]


def _measured(ax: Axes, known: list[Any], renderer: RendererBase | None = None, **options: Any) -> Bbox | None:
    """``ax.get_tightbbox``, from what was found the first time and where the axes are now."""
    if not known:
        found = type(ax).get_tightbbox(ax, renderer, **options)
        known.append(None if found is None else found.extents - _extents(ax, renderer))
        return found
    return None if known[0] is None else Bbox.from_extents(_extents(ax, renderer) + known[0])


def _extents(ax: Axes, renderer: RendererBase | None) -> Any:
    locator: Any = ax.get_axes_locator()
    ax.apply_aspect(locator(ax, renderer) if locator else None)
    return ax.get_window_extent(renderer).extents

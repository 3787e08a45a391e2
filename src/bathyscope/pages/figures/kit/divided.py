"""Axes divided into a grid of smaller ones, whose labels all stay inside of the place of the whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox, TransformedBbox

from bathyscope.core.arrays import FloatArray

_GAP_POINTS: Final = 4.0
_POINTS_PER_INCH: Final = 72.0
_LEAST_SHARE: Final = 0.05
"""Of the place, for each row or column, however large the labels are."""


class _Place:
    """Where axes are, as a share of the whole; matplotlib asks for it whenever it draws."""

    def __init__(self, whole: Axes, bounds: Sequence[Any]) -> None:
        self._whole = whole
        self.bounds = tuple(bounds)

    def __call__(self, ax: Axes, renderer: Any) -> Any:
        figure: Any = ax.get_figure()
        to_figure = self._whole.transAxes - figure.transSubfigure
        return TransformedBbox(Bbox.from_bounds(*self.bounds), to_figure)


@dataclass(frozen=True)
class Division:
    """Smaller axes (rows, columns) in the place of ``whole``, with the shares of their widths and heights."""

    whole: Axes
    axes: Any
    widths: FloatArray
    heights: FloatArray

    def fit(self) -> None:
        """Move the axes so that they and their labels fill the whole, and no label runs into other axes."""
        rows, columns = self.axes.shape
        margins = np.zeros((rows, columns, 4))
        for row, column in np.ndindex(rows, columns):
            ax = self.axes[row, column]
            # A panel may leave a place empty.
            if ax.get_figure() is None or not ax.get_visible():
                continue
            outer, inner = ax.get_tightbbox(), ax.get_window_extent()
            if outer is not None:
                margins[row, column] = np.maximum(0, [*(inner.p0 - outer.p0), *(outer.p1 - inner.p1)])
        figure: Any = self.whole.get_figure()
        gap = _GAP_POINTS / _POINTS_PER_INCH * figure.dpi
        box = self.whole.get_window_extent()
        lefts, widths = _share_out(self.widths, margins[..., 0].max(0), margins[..., 2].max(0), box.width, gap)
        tops, heights = _share_out(self.heights, margins[..., 3].max(1), margins[..., 1].max(1), box.height, gap)
        for row, column in np.ndindex(rows, columns):
            ax = self.axes[row, column]
            bottom = 1 - tops[row] - heights[row]
            ax.set_axes_locator(_Place(self.whole, (lefts[column], bottom, widths[column], heights[row])))


def divide(
    whole: Axes,
    rows: int,
    columns: int,
    *,
    sharex: bool | str = False,
    sharey: bool | str = False,
    width_ratios: Sequence[float] | None = None,
    height_ratios: Sequence[float] | None = None,
) -> Division:
    """Divide axes, which stay as a frame without lines and keep their title."""
    whole.set_axis_off()
    axes: Any = np.empty((rows, columns), dtype=object)
    for row, column in np.ndindex(rows, columns):
        first = axes[0, 0]
        shared = {
            name: first for name, shares in (("sharex", sharex), ("sharey", sharey)) if shares and first is not None
        }
        axes[row, column] = whole.inset_axes((0.0, 0.0, 1.0, 1.0), **shared)
        if sharex and row < rows - 1:
            axes[row, column].tick_params(labelbottom=False)
        if sharey and column > 0:
            axes[row, column].tick_params(labelleft=False)
    division = Division(
        whole,
        axes,
        np.asarray(width_ratios or np.ones(columns), dtype=np.float64),
        np.asarray(height_ratios or np.ones(rows), dtype=np.float64),
    )
    division.fit()
    return division


def _share_out(
    ratios: FloatArray, before: FloatArray, behind: FloatArray, size: float, gap: float
) -> tuple[FloatArray, FloatArray]:
    """Return starts and lengths of places in a row, as shares of ``size`` pixels, with their labels around them."""
    count = len(ratios)
    free = size - float(before.sum() + behind.sum()) - gap * (count - 1)
    lengths = np.maximum(free, _LEAST_SHARE * size * count) * ratios / ratios.sum()
    starts = np.cumsum(before + np.concatenate([[0.0], (lengths + behind + gap)[:-1]]))
    return starts / size, lengths / size

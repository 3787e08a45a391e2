"""Letters of panels in small axes: notes in brackets go first, then letters shrink, until the axes have room."""

import re
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.text import Text

from bathyscope.core.text import as_words
from bathyscope.pages.figures.kit.legend import resize_legend

_LEAST_SHARE: Final = 0.45
"""Share of the width and height of their place that axes keep for what they show."""
_LEGEND_SHARE: Final = 0.3
"""Most of the area of axes that a legend inside of them covers."""
SCALES: Final = (1.0, 0.88, 0.77, 0.67, 0.58)
"""Of letters, one after the other; before the first, labels lose their notes."""
_LEAST_POINTS: Final = 5.0
_NOTE: Final = re.compile(r"\s*\((?:0-based )?index\b[^)]*\)")


class Letters:
    """The texts of one panel as they were drawn, to be made smaller as often as a figure gets fuller."""

    def __init__(self) -> None:
        self._words: dict[Text, str] = {}
        self._points: dict[Text, float] = {}
        self._tick_points: dict[Axis, float] = {}
        self._legend_points: dict[Axes, float] = {}

    def remember(self, texts: list[Text], axes: list[Axes]) -> None:
        """Take note of texts that a panel has written, and of the sizes of all its letters."""
        for text in texts:
            self._words[text] = text.get_text()
            self._points[text] = float(text.get_fontsize())
        for ax in axes:
            for axis in (ax.xaxis, ax.yaxis):
                if labels := axis.get_ticklabels():
                    self._tick_points[axis] = float(labels[0].get_fontsize())
            if (legend := ax.get_legend()) is not None and legend.get_texts():
                self._legend_points[ax] = float(legend.get_texts()[0].get_fontsize())

    def shrink(self, scale: float) -> None:
        """Write texts without their notes in letters of ``scale``; what the caller wrote since stays."""
        for text, words in self._words.items():
            if as_words(text.get_text()) in (as_words(words), as_words(_NOTE.sub("", words))):
                text.set_text(_NOTE.sub("", words))
                text.set_fontsize(_shrink(self._points[text], scale))
        for axis, points in self._tick_points.items():
            axis.set_tick_params(labelsize=_shrink(points, scale))
        for ax, points in self._legend_points.items():
            resize_legend(ax, _shrink(points, scale))


def has_room(ax: Axes) -> bool:
    """Return whether axes keep enough of their place next to their labels; axes that were put by hand do."""
    place = ax.get_subplotspec()
    width = height = 1.0
    while place is not None:
        grid = place.get_gridspec()
        rows, columns = grid.get_geometry()
        widths = np.asarray(grid.get_width_ratios() or np.ones(columns), dtype=np.float64)
        heights = np.asarray(grid.get_height_ratios() or np.ones(rows), dtype=np.float64)
        width *= float(widths[list(place.colspan)].sum() / widths.sum())
        height *= float(heights[list(place.rowspan)].sum() / heights.sum())
        # a grid in a cell of another, such as that of axes and their colour bar
        place = getattr(grid, "_subplot_spec", None)
    box = ax.get_position(original=True)
    legend = ax.get_legend()
    inside = 0.0
    if legend is not None:
        outline = legend.get_window_extent()
        inside = outline.width * outline.height if ax.bbox.overlaps(outline) else 0.0
    return (
        box.width >= _LEAST_SHARE * width
        and box.height >= _LEAST_SHARE * height
        and inside <= _LEGEND_SHARE * ax.bbox.width * ax.bbox.height
    )


def _shrink(points: float, scale: float) -> float:
    return min(points, max(_LEAST_POINTS, points * scale))

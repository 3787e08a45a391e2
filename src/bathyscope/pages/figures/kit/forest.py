"""Rows of dots with whiskers: an estimate with its interval for every name on the left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.texts import drawn_text


@dataclass(frozen=True)
class EstimateRow:
    """A named estimate with its interval, NaN where missing; without a marker, a heading.

    A ``hollow`` mark is an outline; a ``thin`` row has a smaller mark, a thinner whisker and a muted name.
    """

    label: str
    colour: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    marker: str = ""
    hollow: bool = False
    thin: bool = False


def draw_rows(ax: Axes, rows: Sequence[EstimateRow], size: float) -> None:
    """Fill empty axes with rows of marks (``size`` in points), the first on top; the other axis is the caller's."""
    name_rows(ax, [row.label for row in rows])
    for place, (label, row) in enumerate(zip(ax.get_yticklabels(), rows)):
        if not row.marker:
            label.set(fontweight="normal" if row.thin else "bold", color=row.colour)
            continue
        if row.thin:
            label.set(color=style.MUTED)
        if math.isnan(row.value):
            ax.text(0, place, "no estimate", va="center", color=style.MUTED, fontstyle="italic", fontsize=8)
        else:
            ends, face = [row.low, row.high], style.PAPER if row.hollow else row.colour
            if not math.isnan(row.low):
                width = 1 if row.thin else 2
                ax.plot(ends, [place, place], color=row.colour, linewidth=width, solid_capstyle="butt", alpha=0.6)
            mark_size = 0.6 * size if row.thin else size
            ax.plot([row.value], [place], row.marker, color=row.colour, markerfacecolor=face, markersize=mark_size)


def name_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Label the rows 0, 1, … on the left, the first at the top."""
    # Labels of ticks are replaced here: matplotlib creates their texts when the figure is drawn, after ``fill``.
    ax.set_yticks(range(len(labels)), [drawn_text(label) for label in labels])
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)

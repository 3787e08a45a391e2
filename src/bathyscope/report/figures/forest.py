"""Rows of dots with whiskers: an estimate and its interval for everything that is named at the left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from bathyscope.report.figures import style
from bathyscope.report.figures.token_text import drawn_text


@dataclass(frozen=True)
class Mark:
    """An estimate in a row with its interval, NaN where there is none; a ``hollow`` one is an outline."""

    value: float
    low: float
    high: float
    colour: str
    marker: str = "o"
    hollow: bool = False


@dataclass(frozen=True)
class Row:
    """A named line of marks; a heading where it has none. ``colour`` is the name's, where it is not the usual one."""

    label: str
    marks: tuple[Mark, ...] = ()
    colour: str | None = None


def draw_rows(ax: Axes, rows: Sequence[Row], size: float = 5) -> None:
    """Fill empty axes with rows of marks (``size`` in points), the first on top; the other axis is the caller's."""
    for place, row in enumerate(rows):
        for mark in row.marks:
            _draw(ax, place, mark, size)
    name_rows(ax, [row.label for row in rows])
    for label, row in zip(ax.get_yticklabels(), rows):
        if not row.marks:
            label.set(fontweight="bold", color=row.colour or style.INK)


def name_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Names of rows 0, 1, … at the left, the first on top."""
    ax.set_yticks(range(len(labels)), [drawn_text(label) for label in labels])
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)


def _draw(ax: Axes, place: float, mark: Mark, size: float) -> None:
    if math.isnan(mark.value):
        ax.text(0, place, "no estimate", va="center", color=style.MUTED, fontstyle="italic", fontsize=8)
        return
    if not math.isnan(mark.low):
        ends = [mark.low, mark.high]
        ax.plot(ends, [place, place], color=mark.colour, linewidth=2, solid_capstyle="butt", alpha=0.6)
    face = style.PAPER if mark.hollow else mark.colour
    ax.plot([mark.value], [place], mark.marker, color=mark.colour, markerfacecolor=face, markersize=size)

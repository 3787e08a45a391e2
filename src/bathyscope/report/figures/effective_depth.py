"""Effective depth: every estimate with its interval on the block axis.

Source: hu2025 (cosine, kl, overlap); csordas2025 (centre of mass of the skip effects).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.report import table
from bathyscope.report.figures import style
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.lines import block_axis
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_ROW_INCHES: Final = 0.3
_COLOURS: Final = {"block": style.BLUE, "block input": style.VERMILION}
_MARKERS: Final = {"block": "o", "block input": "s"}


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """One dot-and-whisker chart of all estimators; none where no estimator has a depth."""
    rows = table.effective_depth_rows(run)
    if all(row["depth"] is None for row in rows):
        return []
    size = (style.PANEL_SIZE[0], 1.3 + _ROW_INCHES * len(rows))
    return [
        Panel(
            "estimates",
            partial(_draw, rows=rows, last=int(run[table.MEASURE].attrs["n_blocks"]) - 1),
            _alt(rows),
            size,
        )
    ]


def note(run: Run, options: FigureOptions) -> str:
    """What dots, whiskers and shares are, and why estimates are missing."""
    rows = table.effective_depth_rows(run)
    return (
        "Effective depth: where predictions begin to be refined rather than formed, by several criteria. "
        "Dots: estimates (round: index of a block; square: of a block's input); whiskers: "
        f"{table.interval_level(run):.0%} bootstrap intervals, resampling prompts; numbers at the right: "
        "share of resamples in which the criterion is met at all. " + " ".join(table.remarks(rows))
    )


def _draw(figure: FigureBase, rows: list[table.DepthRow], last: int) -> None:
    ax = figure.subplots()
    for place, row in enumerate(rows):
        _draw_row(ax, place, row)
    names = [table.estimator_name(row["estimator"]) for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    block_axis(ax, "block or block input (0-based index)", 0, last)
    shares = ax.secondary_yaxis("right")
    shares.set_yticks(range(len(rows)), [table.depth_cells(row)[5] for row in rows])
    shares.set_ylabel("resamples with a crossing (%)")
    shares.tick_params(length=0)
    shares.spines["right"].set_visible(False)
    ax.set_title("Effective depth by estimator")


def _draw_row(ax: Axes, place: int, row: table.DepthRow) -> None:
    index = table.index_name(row["estimator"])
    depth, low, high = row["depth"], row["ci_low"], row["ci_high"]
    if depth is None:
        ax.text(0, place, "no estimate", va="center", color=style.MUTED, fontstyle="italic", fontsize=8)
        return
    if low is not None and high is not None:
        ax.plot([low, high], [place, place], color=_COLOURS[index], linewidth=2, solid_capstyle="butt", alpha=0.6)
    ax.plot([depth], [place], _MARKERS[index], color=_COLOURS[index], markersize=6)


def _alt(rows: list[table.DepthRow]) -> str:
    said = [
        f"{table.estimator_name(row['estimator'])} {table.show_depth(row['estimator'], row['depth'])} "
        f"(interval {table.show_interval(row)})"
        for row in rows
    ]
    return f"Dots with whiskers, effective depth by estimator: {'; '.join(said)}."


FIGURE: Final = FigureKind(
    name="effective_depth",
    measure=table.MEASURE,
    heading="Effective depth",
    needs=("depth",),
    panels=panels,
    note=note,
)
draw, caption = FIGURE.draw, FIGURE.caption

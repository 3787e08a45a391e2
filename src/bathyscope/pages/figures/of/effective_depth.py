"""Effective depth: every estimate with its interval on the block axis, estimators of one curve together.

Source: hu2025 (cosine, kl, overlap); csordas2025 (centre of mass of the skip effects).
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from matplotlib.figure import FigureBase

from bathyscope.pages import table
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import block_axis
from bathyscope.pages.figures.kit.forest import Row, draw_rows
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.prompts.parts import resampled
from bathyscope.runs.run import Run

_LINE_INCHES: Final = 0.2
_HEADINGS_INCHES: Final = 1.6


def _of_curve(curve: str) -> dict[str, str]:
    return {f"{reading}{curve}": label for reading, label in {"": "as published", **table.READINGS}.items()}


_GROUPS: Final = {
    "Cosines": (style.BLUE, "o", _of_curve("cosine")),
    "KL": (style.VERMILION, "s", _of_curve("kl")),
    "Top-k overlap": (style.GREEN, "^", _of_curve("overlap")),
    "Tokens": (style.PURPLE, "D", {"settle": "settle depth", "prediction": "prediction depth"}),
    "Skip effects (no depth)": (style.INK, "v", {"centre_of_mass": "centre of mass"}),
}
"""Heading → colour, mark, and the estimators that stand under it with their labels."""


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """One dot-and-whisker chart of all estimators; none where no estimator has a depth."""
    rows, attrs = table.effective_depth_rows(run), run[table.MEASURE].attrs
    note = (
        "Effective depth: where predictions begin to be refined rather than formed, by several criteria. "
        "Dots: estimates in blocks done, grouped by the curve they are read off; "
        f"whiskers: {attrs['level']:.0%} bootstrap intervals, resampling "
        f"{resampled(measure_options(run, table.MEASURE).get('cluster'))}; numbers at the right: share of "
        f"resamples in which the criterion is met at all. {' '.join(table.remarks(rows))}"
    )
    if all(row["depth"] is None for row in rows):
        return Drawing([], note)
    lines = list(_lines(rows))
    size = (style.PANEL_SIZE[0] + _HEADINGS_INCHES, 1.1 + _LINE_INCHES * len(lines))
    draw = partial(_draw, lines=lines, n_blocks=int(attrs["n_blocks"]))
    return Drawing([Panel("estimates", draw, _alt(rows), size)], note)


def _lines(rows: Sequence[table.DepthRow]) -> Iterator[tuple[Row, table.DepthRow | None]]:
    """Headings and the estimates that the run has under each of them."""
    by_name = {row["estimator"]: row for row in rows}
    for heading, (colour, marker, labels) in _GROUPS.items():
        present = [name for name in labels if name in by_name]
        if present:
            yield Row(heading, colour), None
        for name in present:
            row = by_name[name]
            depth, low, high = (
                math.nan if end is None else end for end in (row["depth"], row["ci_low"], row["ci_high"])
            )
            yield Row(labels[name], colour, depth, low, high, marker), row


def _draw(figure: FigureBase, lines: Sequence[tuple[Row, table.DepthRow | None]], n_blocks: int) -> None:
    ax = figure.subplots()
    draw_rows(ax, [row for row, _ in lines], size=4.5)
    # boundary L, where a token may settle, is one beyond the last block
    block_axis(ax, "blocks done", 0, n_blocks)
    shares = ax.secondary_yaxis("right")
    estimates = {place: row for place, (_, row) in enumerate(lines) if row is not None}
    shares.set_yticks(list(estimates), [table.depth_cells(row)[4] for row in estimates.values()])
    shares.set_ylabel("resamples with a crossing (%)")
    shares.tick_params(length=0)
    shares.spines["right"].set_visible(False)
    ax.set_title("Effective depth by estimator")


def _alt(rows: Sequence[table.DepthRow]) -> str:
    said = [
        f"{table.estimator_name(row['estimator'])} {table.show_depth(row['estimator'], row['depth'])} "
        f"(interval {table.show_interval(row)})"
        for row in rows
    ]
    return f"Dots with whiskers, effective depth by estimator: {'; '.join(said)}."


FIGURE: Final = FigureKind("effective_depth", "Effective depth", ("depth",), _drawing)

"""Effective depth: the verdict's readings, and below them every other estimate, with intervals on the block axis.

Source: hu2025 (cosine, kl, overlap); csordas2025 (centre of mass of the skip effects).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from matplotlib.figure import FigureBase

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import block_axis
from bathyscope.pages.figures.kit.forest import EstimateRow, draw_rows
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.prompts.parts import resampled
from bathyscope.runs import depth_table as table
from bathyscope.runs.run import Run

_LINE_INCHES: Final = 0.2
_HEADINGS_INCHES: Final = 1.6


def _name_estimators(curve: str) -> dict[str, str]:
    return {f"{reading}{curve}": label for reading, label in {"": "as published", **table.READINGS}.items()}


@dataclass(frozen=True)
class EstimatorGroup:
    """Estimators under one heading, with their look; ``labels`` are estimator → label."""

    heading: str
    colour: str
    marker: str
    labels: Mapping[str, str]


_VERDICT: Final = {
    "half": "half of the tokens keep their prediction",
    "tokens_90": "90 % of the tokens keep their prediction",
    "readable": "average token keeps its prediction",
    "own": "90 % of the effect on the output",
    "later": "the same, at later tokens",
}
"""The verdict's readings by name, in words."""
_GROUPS: Final = (
    EstimatorGroup("Cosines", style.BLUE, "o", _name_estimators("cosine")),
    EstimatorGroup("KL", style.VERMILION, "s", _name_estimators("kl")),
    EstimatorGroup("Top-k overlap", style.GREEN, "^", _name_estimators("overlap")),
    EstimatorGroup("Tokens", style.PURPLE, "D", {"settle": "settle depth", "prediction": "prediction depth"}),
    EstimatorGroup("Skip effects (no depth)", style.INK, "v", {"centre_of_mass": "centre of mass"}),
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw all estimators as dots with whiskers; nothing where no estimator has a depth."""
    rows, attrs = table.effective_depth_rows(run), run[table.MEASURE].attrs
    note = (
        "Effective depth: where predictions begin to be refined rather than formed, by several criteria. "
        "On top, as diamonds: the readings of the verdict. Below: published and other criteria in blocks done, grouped "
        "by the curve that they come from; "
        f"whiskers: {level_text(attrs['level'])} bootstrap intervals, resampling "
        f"{resampled(measure_options(run, table.MEASURE).get('cluster'))}; numbers at the right: share of "
        f"resamples that meet the criterion. {' '.join(table.remarks(rows))}"
    )
    if all(row["depth"] is None for row in rows):
        return Drawing([], note)
    lines = [*_list_readings(run, options), *_list_lines(rows)]
    size = (style.PANEL_SIZE[0] + _HEADINGS_INCHES, 1.1 + _LINE_INCHES * len(lines))
    draw = partial(_draw_estimates, lines=lines, n_blocks=int(attrs["n_blocks"]))
    alt = f"{_describe_estimates(rows)} {_describe_readings(lines)}".strip()
    return Drawing([Panel("estimates", draw, alt, size)], note)


def _list_readings(run: Run, options: FigureOptions) -> Iterator[tuple[EstimateRow, table.DepthRow | None]]:
    """Yield the verdict's readings under their heading; nothing where the run does not tell them."""
    if not run.judged:
        return
    verdict = run.verdict_by(options.cluster)
    readings = [reading for reading in (getattr(verdict, name) for name in _VERDICT) if np.isfinite(reading.value)]
    if readings:
        yield EstimateRow("Verdict", style.INK), None
    for reading in readings:
        yield (
            EstimateRow(_VERDICT[reading.name], style.VERMILION, reading.value, reading.low, reading.high, "D"),
            None,
        )


def _describe_readings(lines: Sequence[tuple[EstimateRow, table.DepthRow | None]]) -> str:
    """Write the verdict's readings with their intervals; empty without any."""
    readings = [row for row, estimate in lines if estimate is None and not math.isnan(row.value)]
    texts = (f"{row.label} {Estimate(row.value, row.low, row.high):.1f}" for row in readings)
    return f"Verdict: {'; '.join(texts)}." if readings else ""


def _list_lines(rows: Sequence[table.DepthRow]) -> Iterator[tuple[EstimateRow, table.DepthRow | None]]:
    """Yield each heading, and the run's estimates below it."""
    by_name = {row["estimator"]: row for row in rows}
    for group in _GROUPS:
        present = [name for name in group.labels if name in by_name]
        if present:
            yield EstimateRow(group.heading, group.colour, thin=True), None
        for name in present:
            row = by_name[name]
            depth, low, high = (
                math.nan if end is None else end for end in (row["depth"], row["ci_low"], row["ci_high"])
            )
            yield EstimateRow(group.labels[name], group.colour, depth, low, high, group.marker, thin=True), row


def _draw_estimates(
    figure: FigureBase, lines: Sequence[tuple[EstimateRow, table.DepthRow | None]], n_blocks: int
) -> None:
    ax = figure.subplots()
    draw_rows(ax, [row for row, _ in lines], size=4.5)
    # A token may settle at boundary L, one place after the last block.
    block_axis(ax, "blocks done", 0, n_blocks)
    # A second axis keeps the numbers next to their rows whatever the layout does.
    shares = ax.secondary_yaxis("right")
    estimates = {place: row for place, (_, row) in enumerate(lines) if row is not None}
    shares.set_yticks(list(estimates), [table.depth_cells(row)[4] for row in estimates.values()])
    shares.set_ylabel("resamples with a crossing (%)")
    shares.tick_params(length=0)
    shares.spines["right"].set_visible(False)
    ax.set_title("Effective depth by estimator")


def _describe_estimates(rows: Sequence[table.DepthRow]) -> str:
    descriptions = [f"{table.estimator_name(row['estimator'])} {table.write_depth(row)}" for row in rows]
    return f"Dots with whiskers, effective depth by estimator: {'; '.join(descriptions)}."


FIGURE: Final = FigureKind("effective_depth", "Effective depth", ("depth",), _make_drawing)
